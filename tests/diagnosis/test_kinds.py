"""Kinds of causes: every kind that the grader names itself is a general one."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from grader.diagnosis.edits.edit_scope import Scope
from grader.diagnosis.kinds import NAMEABLE

ROOT = Path(__file__).resolve().parents[2]
NAMING = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for room in ("diagnosis", "judge")
    for path in (ROOT / "grader" / room).rglob("*.py")
)
# What a kind looks like; signs of comparison stand beside kinds in some tables.
KIND = re.compile(r"[a-z][a-z0-9_]{2,31}")
# Elsewhere, other things have kinds too: symptoms, exceptions, accesses.
OF_CAUSES = frozenset({"Clue", "sure", "Words"})


class Kinds:
    """The kinds that a module names: literals, and constants by their names."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._tree = ast.parse(inspect.getsource(module))

    def named(self) -> Iterator[str]:
        """Yield each kind that a call is given, or that is compared with a clue's."""
        for function in ast.walk(self._tree):
            if isinstance(function, ast.FunctionDef):
                for node in ast.walk(function):
                    if isinstance(node, ast.Call):
                        for given in self._given_as_kinds(node):
                            yield from self._strings(given, function)
                    elif isinstance(node, ast.Compare) and ast.unparse(node.left) == "clue.kind":
                        yield from self._strings(node.comparators[0], function)

    def _given_as_kinds(self, call: ast.Call) -> Iterator[ast.expr]:
        names = self._parameters(call.func)
        by_place = dict(zip(names, call.args, strict=False))
        of_clue = ast.unparse(call).startswith("replace(clue, ")
        by_name = {one.arg: one.value for one in call.keywords if of_clue or one.arg in names}
        yield from (value for name, value in {**by_place, **by_name}.items() if name in ("kind", "kinds"))

    def _parameters(self, called: ast.expr) -> list[str]:
        match called:
            case ast.Name(name):
                found = getattr(self._module, name, None)
                if callable(found) and (name in OF_CAUSES or found.__module__.startswith("grader.diagnosis")):
                    return [*inspect.signature(found).parameters]
            case ast.Attribute(ast.Name("scope"), name):
                return [*inspect.signature(getattr(Scope, name)).parameters][1:]
        return []

    def _strings(self, node: ast.expr, function: ast.FunctionDef) -> Iterator[str]:
        match node:
            case ast.Constant(str(text)):
                yield text
            case ast.Name(name):
                for one in ast.walk(function):
                    if isinstance(one, ast.Assign | ast.AnnAssign) and one.value is not None:
                        targets = one.targets if isinstance(one, ast.Assign) else [one.target]
                        yield from self._assigned(targets[0], one.value, name, function)
                yield from _flat(getattr(self._module, name, ()))
            case ast.Tuple(items) | ast.Set(items) | ast.List(items):
                for item in items:
                    yield from self._strings(item, function)
            case ast.Starred(value) | ast.Subscript(value):
                yield from self._strings(value, function)
            case ast.IfExp(_, one, other):
                yield from self._strings(one, function)
                yield from self._strings(other, function)
            case ast.Call(ast.Name(name)):
                for one in ast.walk(self._tree):
                    if isinstance(one, ast.FunctionDef) and one.name == name:
                        returned = (each.value for each in ast.walk(one) if isinstance(each, ast.Return))
                        for value in filter(None, returned):
                            yield from self._strings(value, one)

    def _assigned(self, target: ast.expr, value: ast.expr, name: str, function: ast.FunctionDef) -> Iterator[str]:
        match target, value:
            case ast.Name(found), _ if found == name:
                # A name that is given by itself was resolved before.
                if not any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(value)):
                    yield from self._strings(value, function)
            case ast.Tuple(targets), ast.Tuple(values) if len(targets) == len(values):
                for one, given in zip(targets, values, strict=True):
                    yield from self._assigned(one, given, name, function)
            case ast.Tuple(targets), ast.Subscript() if any(ast.unparse(one) == name for one in targets):
                yield from self._strings(value, function)


def _flat(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _flat(one)
    elif isinstance(value, tuple | list | set | frozenset):
        for one in value:
            yield from _flat(one)


def kinds_named_in(module: ModuleType) -> set[str]:
    """Return the kinds that a module names, weights and signs aside."""
    return {name for name in Kinds(module).named() if KIND.fullmatch(name)}


@pytest.mark.parametrize("name", NAMING)
def test_every_kind_that_the_grader_names_is_listed(name: str) -> None:
    assert kinds_named_in(importlib.import_module(name)) <= set(NAMEABLE)


def test_most_listed_kinds_are_found_where_they_are_named() -> None:
    found = set[str]().union(*(kinds_named_in(importlib.import_module(name)) for name in NAMING))
    assert len(found) > 2 * len(NAMEABLE) / 3


@pytest.mark.parametrize(
    "line",
    [
        "return sure('missing_msk')",
        "yield Clue(kind='missing_msk', weight=0.5)",
        "return scope.edit(node, 'n', ('race', *_OWN))",
        "kinds, weight = ('missing_msk', 'race'), 1.0; yield scope.edit(node, 'n', kinds, weight)",
        "return clue.kind == 'missing_msk'",
    ],
)
def test_a_misspelt_kind_is_found(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from grader.judge.clue import Clue, sure\n_OWN = ('missing_msk',)\n\n\ndef f(scope, node, clue):\n    "
    (tmp_path / "misspelt.py").write_text(f"{text}{line}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(importlib.import_module("sys").modules, "misspelt", raising=False)
    assert "missing_msk" in kinds_named_in(importlib.import_module("misspelt"))


def test_a_symptom_leads_to_one_kind() -> None:
    symptoms = [symptom for kind in NAMEABLE.values() for symptom in kind.symptoms]
    assert len(symptoms) == len(set(symptoms))
