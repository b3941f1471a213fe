"""List edits that exchange two of a kind: neighbours in a list, or two names in an expression."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

from grader.diagnosis.edits.edit_scope import NOW_AND_THEN, RARELY, Edit, Finder, Scope, bare_name, called, names_in
from grader.diagnosis.edits.names import SIZES, TENSORS, is_one_letter_off, may_matter


def _order(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Exchange neighbours: arguments of a launch, elements of a grid or of a shape, results."""
    if isinstance(node, ast.Call) and not scope.in_kernel:
        yield from _exchanged(scope, node.args, TENSORS)
    if isinstance(node, ast.Tuple | ast.List):
        yield from _exchanged(scope, node.elts, SIZES if scope.in_kernel else (*SIZES, *TENSORS))


def _exchanged(scope: Scope, items: Sequence[ast.expr], kinds: tuple[str, ...]) -> Iterator[Edit]:
    weight = NOW_AND_THEN
    if not scope.in_kernel:
        # Grids and shapes; or arguments of a launch.
        weight = RARELY if kinds == TENSORS else 2 * NOW_AND_THEN
    for one, other in pairwise(items):
        if isinstance(one, ast.Starred) or isinstance(other, ast.Starred):
            continue
        (start, first), (second, end) = scope.span(one), scope.span(other)
        parts = scope.source[second:end], scope.source[first:second], scope.source[start:first]
        before, after = scope.source[start:end].decode(), b"".join(parts).decode()
        yield Edit(one.lineno, before, after, kinds, weight, start, end, scope.in_kernel)


def _exchanged_names(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Exchange two names everywhere in an expression: the sizes of two axes, or the indices."""
    if not isinstance(node, ast.stmt) or isinstance(node, ast.FunctionDef | ast.If | ast.While):
        return
    values = [getattr(node, "value", None), getattr(node, "iter", None)]
    values += [one.value for one in values[0].keywords] if isinstance(values[0], ast.Call) else []
    for value in values:
        if not isinstance(value, ast.expr) or isinstance(value, ast.Name | ast.Constant):
            continue
        for one, other in combinations(sorted(names_in(value) & scope.known_from.keys()), 2):
            alike = is_one_letter_off(one, other) or (one in scope.sizes and other in scope.sizes)
            if alike and may_matter(scope, one, other):
                after = scope.renamed(value, {one: other, other: one})
                kinds = TENSORS if _is_loaded(scope, one) and _is_loaded(scope, other) else ()
                yield scope.edit(value, after, (*kinds, *SIZES, "causal_alignment"), NOW_AND_THEN)


def _is_loaded(scope: Scope, name: str) -> bool:
    """Return whether a name stands for a loaded value."""
    assigned = (one for one in ast.walk(scope.function) if isinstance(one, ast.Assign))
    values = (one.value for one in assigned if bare_name(one.targets[0]) == name)
    return any(called(one) == "load" for value in values for one in ast.walk(value))


IN_EXCHANGES: tuple[Finder, ...] = (_order, _exchanged_names)
