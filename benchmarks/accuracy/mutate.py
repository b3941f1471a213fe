"""Solutions with one change each, made where the syntax tree says; the rest of the text stays as it is."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.accuracy.operators import KERNEL, LAUNCH, Change, Operator, Scope
from grader.syntax import tree_of


@dataclass(frozen=True)
class Mutant:
    """A solution with one change: the line that it is in, as it was and as it is, and the whole text."""

    operator: str
    function: str
    line: int
    before: str
    after: str
    text: str


def mutants(source: str, parts: Sequence[str]) -> tuple[Mutant, ...]:
    """Return every mutant of a solution, by line: of its kernels, and of the functions of the parts."""
    found: dict[str, Mutant] = {}
    for function in _functions(tree_of(source)):
        kernel = is_kernel(function)
        if not kernel and function.name not in parts:
            continue
        scope = _scope(source, function)
        for name, change in _changes(scope, KERNEL if kernel else LAUNCH):
            if _says_something_else(change, scope):
                mutant = _applied(name, change, scope)
                found.setdefault(mutant.text, mutant)
    return tuple(sorted(found.values(), key=lambda one: (one.line, one.operator, one.after)))


def sample(found: Sequence[Mutant], count: int, seed: int) -> tuple[Mutant, ...]:
    """Return `count` of the mutants: one drawn from every operator in turn, as long as there are any."""
    chance = random.Random(seed)
    groups: dict[str, list[Mutant]] = {}
    for mutant in found:
        groups.setdefault(mutant.operator, []).append(mutant)
    for group in groups.values():
        chance.shuffle(group)
    drawn: list[Mutant] = []
    while len(drawn) < min(count, len(found)):
        for name in sorted(groups):
            if groups[name] and len(drawn) < count:
                drawn.append(groups[name].pop())
    return tuple(sorted(drawn, key=lambda one: (one.line, one.operator, one.after)))


def reached_from(source: str, function: str, parts: Sequence[str]) -> frozenset[str]:
    """Return the parts whose code leads to a function, by the names that it mentions."""
    mentions: dict[str, set[str]] = {}
    for node in tree_of(source).body:
        for name in _defined(node):
            mentions.setdefault(name, set()).update(
                one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)
            )
    return frozenset(part for part in parts if function in _closure(part, mentions))


def trapped(source: str, line: int) -> str:
    """Return the text with an error in front of the statement that a line belongs to: a run of the line raises it."""
    tree = tree_of(source)
    around = [
        node
        for function in _functions(tree)
        for node in ast.walk(function)
        if isinstance(node, ast.stmt) and node is not function and node.lineno <= line <= (node.end_lineno or 0)
    ]
    lines = source.splitlines(keepends=True)
    # An `elif` has no place in front of it; its `if` has.
    statements = [node for node in around if not lines[node.lineno - 1].lstrip().startswith("elif")]
    innermost = max(statements, key=lambda node: (node.lineno, node.col_offset))
    trap = f'{" " * innermost.col_offset}raise RuntimeError("here")\n'
    return "".join([*lines[: innermost.lineno - 1], trap, *lines[innermost.lineno - 1 :]])


def is_kernel(function: ast.FunctionDef) -> bool:
    """Whether a function speaks Triton's language: something of `tl` is called in its body."""
    calls = (node for statement in function.body for node in ast.walk(statement) if isinstance(node, ast.Call))
    return any(
        isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and call.func.value.id == "tl"
        for call in calls
    )


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in tree.body if isinstance(node, ast.FunctionDef))


def _scope(source: str, function: ast.FunctionDef) -> Scope:
    raw = source.encode()
    starts = [0]
    for line in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    parents = {child: parent for parent in ast.walk(function) for child in ast.iter_child_nodes(parent)}
    return Scope(raw, tuple(starts), function, parents)


def _changes(scope: Scope, operators: dict[str, Operator]) -> Iterator[tuple[str, Change]]:
    """Yield every change of the function's body; signatures, annotations, raised and asserted expressions stay."""
    for statement in scope.function.body:
        for node in _inside(statement):
            for name, operator in operators.items():
                for change in operator(node, scope):
                    yield name, change


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Raise | ast.Assert | ast.FunctionDef):
        return
    yield node
    for name, child in ast.iter_fields(node):
        if name == "annotation":
            continue
        for one in child if isinstance(child, list) else [child]:
            if isinstance(one, ast.AST):
                yield from _inside(one)


def _applied(operator: str, change: Change, scope: Scope) -> Mutant:
    source, start, end = scope.source, change[0].start, change[-1].end
    head = source.rfind(b"\n", 0, start) + 1
    tail = source.find(b"\n", end) if b"\n" in source[end:] else len(source)
    return Mutant(
        operator,
        scope.function.name,
        source.count(b"\n", 0, start) + 1,
        _one_line(source[head:tail]),
        _one_line(_changed(source, change, head, tail)),
        _changed(source, change, 0, len(source)).decode(),
    )


def _changed(source: bytes, change: Change, start: int, end: int) -> bytes:
    """Return bytes start … end-1 of a source, with the edits of a change among them."""
    pieces, at = [], start
    for edit in change:
        pieces += [source[at : edit.start], edit.text.encode()]
        at = edit.end
    return b"".join([*pieces, source[at:end]])


def _one_line(raw: bytes) -> str:
    return " ".join(raw.decode().split())


def _says_something_else(change: Change, scope: Scope) -> bool:
    """Whether a changed function is still Python, and another function."""
    start, end = scope.span(scope.function)
    unchanged = ast.dump(tree_of(scope.source[start:end]))
    try:
        return ast.dump(tree_of(_changed(scope.source, change, start, end))) != unchanged
    except SyntaxError:
        return False


def _defined(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}


def _closure(name: str, mentions: dict[str, set[str]]) -> set[str]:
    known, new = {name}, [name]
    while new:
        fresh = mentions.get(new.pop(), set()) - known
        known |= fresh
        new += fresh
    return known
