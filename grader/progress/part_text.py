"""Hash the text that decides a part's results: its function, all that this function reaches, and what runs for all.

A statement at the top of the file belongs to a part if it binds a name that the part's function uses, directly or
through other functions. A statement that does more than bind names belongs to every part. Comments, layout and
docstrings belong to none.

Where the text does not tell what a part reaches, the whole file is its text: a change elsewhere then takes back a
result that still holds, and never the other way round.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache

from grader.syntax import tree_of

# By these, a function reaches names that its text does not hold.
_LOOK_UPS = frozenset({"globals", "vars", "locals", "eval", "exec", "__import__"})
_LOOK_UP_ATTRIBUTES = frozenset({"modules", "__globals__", "f_globals", "__dict__", "import_module"})
# After every save, the hashes of each exercise's file and of its untouched stub are asked for again.
_KNOWN_TEXTS = 32


@dataclass(frozen=True)
class _Statement:
    """A statement at the top of a file. is_for_all: it does more than bind names."""

    text: str
    binds: frozenset[str]
    uses: frozenset[str]
    is_for_all: bool


def part_hashes(source: str, functions: Collection[str]) -> dict[str, str]:
    """Return, for each function, the SHA-256 of the text that decides its part's results.

    A file that cannot be parsed gives all functions the hash of the whole file. So does a function that the file does
    not define.
    """
    return dict(_hashes(source, tuple(functions)))


@lru_cache(_KNOWN_TEXTS)
def _hashes(source: str, functions: tuple[str, ...]) -> dict[str, str]:
    whole = _sha256([source])
    try:
        tree = tree_of(source)
        if any(map(_looks_up, ast.walk(tree))):
            return dict.fromkeys(functions, whole)
        statements = [_statement(node) for node in tree.body if not _is_idle(node)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return dict.fromkeys(functions, whole)
    defined = {name for statement in statements for name in statement.binds}
    return {
        name: _sha256(one.text for one in _reached(statements, name)) if name in defined else whole
        for name in functions
    }


def _sha256(texts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode("utf-8", "replace") + b"\0")
    return digest.hexdigest()


def _reached(statements: list[_Statement], name: str) -> list[_Statement]:
    """Return the statements that a name reaches, in the order of the file. Looks at each statement and name once."""
    binding: dict[str, list[int]] = {}
    for place, one in enumerate(statements):
        for bound in one.binds:
            binding.setdefault(bound, []).append(place)
    found = set[int]()
    waiting = [place for place, one in enumerate(statements) if one.is_for_all] + binding.pop(name, [])
    while waiting:
        place = waiting.pop()
        if place not in found:
            found.add(place)
            for used in statements[place].uses:
                waiting += binding.pop(used, [])
    return [statements[place] for place in sorted(found)]


def _looks_up(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=name):
            return name in _LOOK_UPS
        case ast.Attribute(attr=name):
            return name in _LOOK_UP_ATTRIBUTES
        case ast.ImportFrom(names=[ast.alias(name="*")]):
            return True
    return False


def _is_idle(node: ast.stmt) -> bool:
    """Return whether a statement does nothing in a grading: a text, or what only a run as a script does."""
    match node:
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__")), orelse=[]):
            return True
    return False


def _statement(node: ast.stmt) -> _Statement:
    binds, is_for_all = _bound(node)
    nodes = list(ast.walk(node))
    uses = frozenset(inner.id for inner in nodes if isinstance(inner, ast.Name))
    # A function that declares a name global may bind it too.
    shared = frozenset(name for inner in nodes if isinstance(inner, ast.Global) for name in inner.names)
    for inner in nodes:
        _drop_docstring(inner)
    return _Statement(ast.dump(node), binds | shared, uses | shared, is_for_all)


def _bound(node: ast.stmt) -> tuple[frozenset[str], bool]:
    """Return the names that a statement binds, and whether it does more than that."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return frozenset({name}), False
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return frozenset((alias.asname or alias.name).partition(".")[0] for alias in names), False
        case ast.Assign(targets=targets):
            pass
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            targets = [target]
        case _:
            targets = []
    inner = [part for target in targets for part in ast.walk(target)]
    names_only = all(
        isinstance(part, ast.Name | ast.Tuple | ast.List | ast.Starred | ast.expr_context) for part in inner
    )
    stored = (part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))
    return frozenset(stored), not targets or not names_only


def _drop_docstring(node: ast.AST) -> None:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        match node.body:
            case [ast.Expr(value=ast.Constant(value=str())), *rest]:
                node.body = rest or [ast.Pass()]
