"""Look up the things behind a kernel's names: in the trace, then in the imports of the file."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping
from functools import cache
from typing import NoReturn

import triton

from grader.interpreter.beyond import NeedsGpu
from grader.interpreter.language.trees import copied
from grader.protocol.trace import (
    AGGREGATE,
    FROM_ELSEWHERE,
    DictValue,
    KernelText,
    KernelValue,
    LanguageValue,
    ListValue,
    NamedValue,
    TupleValue,
    UnknownValue,
    Value,
)
from grader.replay.language import GLUON, Offered, find
from grader.replay.text import Function
from grader.replay.things import UNDEFINED, Data, Foreign, KernelReference, Thing, Unknown
from grader.replay.values import RefusedFunction, Unusable, describe, plain_value


def merge_dotted(kernel_text: KernelText, function: Function) -> Function:
    """Return a copy in which a dotted function name, as in `helpers.maximum`, is one name of the trace."""
    return _Dotted(kernel_text, function).visit(copied(function))  # type: ignore[no-any-return]


class _Dotted(ast.NodeTransformer):
    """Merges a dotted function name, as in `helpers.maximum`, into one name, if the trace holds it.

    A variable called `helpers` hides it.
    """

    def __init__(self, kernel_text: KernelText, function: Function) -> None:
        variables = {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}
        variables |= {
            one.id for one in ast.walk(function) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        }
        dotted = (name for name, value in kernel_text.names.items() if "." in name and isinstance(value, KernelValue))
        self._names = {name for name in dotted if name.partition(".")[0] not in variables}

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        name = f"{node.value.id}.{node.attr}" if isinstance(node.value, ast.Name) else ""
        return ast.copy_location(ast.Name(name, node.ctx), node) if name in self._names else node


class Names:
    """The things behind the names of one function: from the trace, else from the file's imports."""

    def __init__(
        self, kernel_text: KernelText, imports: Mapping[str, str], tree: ast.Module, kernel_of: Callable[[int], object]
    ) -> None:
        self._kernel_text, self._imports, self._tree, self._kernel_of = kernel_text, imports, tree, kernel_of
        self._found: dict[str, Thing | None] = {}

    def thing(self, name: str) -> Thing | None:
        """Return the thing behind a name, or None if it is unknown."""
        if name not in self._found:
            self._found[name] = self._look_up(name)
        return self._found[name]

    def _look_up(self, name: str) -> Thing | None:
        if name in self._kernel_text.names:
            return _thing_of(self._kernel_text.names[name])
        if name in self._imports:
            return _imported(self._imports[name])
        if name in _names_bound_in(self._tree) or hasattr(builtins, name):
            return None
        return UNDEFINED

    def chain(self, node: ast.expr) -> Thing | None:
        """Return the thing behind a dotted name, or None."""
        if isinstance(node, ast.Name):
            return self.thing(node.id)
        if isinstance(node, ast.Attribute):
            home = self.chain(node.value)
            return home.member(node.attr) if isinstance(home, Offered) else None
        return None

    def value_of(self, thing: Data | Offered) -> object:
        """Return the object behind a name, with the functions in it. Raises RefusedFunction."""
        return plain_value(thing.told, self._kernel_of) if isinstance(thing, Data) else thing.value

    @property
    def defaults(self) -> Mapping[str, Value]:
        """Return the defaults in the trace, by parameter."""
        return self._kernel_text.defaults

    def constant(self, name: str) -> ast.expr | None:
        """Return the expression that the file assigns to a name, if it does so once, at its top level."""
        found = [
            node.value
            for node in self._tree.body
            if isinstance(node, ast.Assign)
            and any(isinstance(one, ast.Name) and one.id == name for one in node.targets)
        ]
        return found[0] if len(found) == 1 else None


@cache
def _names_bound_in(tree: ast.Module) -> frozenset[str]:
    """Return all names that a text binds anywhere."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.alias(name=name, asname=asname):
                names.add(asname or name.partition(".")[0])
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.MatchMapping(rest=str(name)):
                names.add(name)
    return frozenset(names)


def _thing_of(value: Value) -> Thing:
    if isinstance(value, KernelValue):
        return KernelReference(value.index)
    if isinstance(value, LanguageValue):
        return _imported(value.path)
    if isinstance(value, UnknownValue):
        return _unknown(value)
    try:
        return Data(plain_value(value, lambda _: _stand_in), value)
    except RefusedFunction as refused:
        is_variable = isinstance(value, TupleValue | ListValue | DictValue) or (
            isinstance(value, NamedValue) and value.kind != "class"
        )
        return Data(Unusable(refused.rule), value) if is_variable else Unknown(refused.rule)


def _unknown(value: UnknownValue) -> Unknown:
    if value.what.startswith(FROM_ELSEWHERE):
        return Unknown(value.what[:300])
    if value.what.startswith(AGGREGATE):
        if triton.knobs.runtime.interpret:
            raise NeedsGpu(f"{value.what}, which Triton's interpreter lacks")
        return Unknown(f"{value.what}: pass its fields one by one, or as a named tuple, to functions"[:300])
    return Unknown(f"{describe(value)}, which a kernel cannot use: pass numbers, dtypes or kernels"[:300], python=True)


def _stand_in(*_: object) -> NoReturn:
    raise AssertionError("a stand-in for a function is not to be called")


def _imported(path: str) -> Thing:
    if path.startswith(GLUON) and triton.knobs.runtime.interpret:
        raise NeedsGpu("a kernel of Gluon's, the language below Triton's")
    found = find(path)
    if found is not None:
        return found
    if path.partition(".")[0] == "triton":
        return Unknown(f"{path} is internal to Triton and not supported here: use what triton.language offers"[:300])
    return Foreign(path[:100])
