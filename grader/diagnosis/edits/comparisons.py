"""List edits for comparisons: another bound, or another direction."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from grader.diagnosis.edits.edit_scope import NOW_AND_THEN, OFTEN, SLIP, Edit, Finder, Scope
from grader.diagnosis.edits.masks import TOO_NARROW, TOO_WIDE

# Comparisons that include their bound, and the same that do not, each with the kinds of an edit.
_FLIPPED: Mapping[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<=", TOO_NARROW),
    ast.LtE: ("<", TOO_WIDE),
    ast.Gt: (">=", TOO_NARROW),
    ast.GtE: (">", TOO_WIDE),
}
_REVERSED: Mapping[type[ast.cmpop], str] = {ast.Lt: ">", ast.LtE: ">=", ast.Gt: "<", ast.GtE: "<="}


def _bounds(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Include a bound, or exclude it."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _FLIPPED:
        flipped, kinds = _FLIPPED[type(node.ops[0])]
        of_zero = getattr(node.comparators[0], "value", None) == 0
        if of_zero or isinstance(scope.parents.get(node), ast.If | ast.IfExp | ast.While):
            # A condition is no mask, and 0 is no length.
            kinds = (SLIP, *kinds)
        yield scope.edit(node, f"{scope.text(node.left)} {flipped} {scope.text(node.comparators[0])}", kinds, OFTEN / 2)


def _directions(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Reverse a comparison."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _REVERSED:
        sign = _REVERSED[type(node.ops[0])]
        after = f"{scope.text(node.left)} {sign} {scope.text(node.comparators[0])}"
        yield scope.edit(node, after, ("causal_missing", "causal_alignment", "missing_mask"), NOW_AND_THEN)


IN_COMPARISONS: tuple[Finder, ...] = (_bounds, _directions)
