"""List edits for lanes without an element: the mask of a load or store, and the value in an element's place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import product

from grader.diagnosis.edits.edit_scope import (
    MOST,
    NOW_AND_THEN,
    OFTEN,
    SOMETIMES,
    Edit,
    Finder,
    Scope,
    called,
    keyword,
    names_in,
)
from grader.diagnosis.edits.factors import FACTORS
from grader.diagnosis.edits.masks import TOO_WIDE
from grader.diagnosis.edits.names import SIZES

# Values of masked lanes.
_PADDING = ("0.0", 'float("-inf")', 'float("inf")')
# The kinds of a wrong start value, and of a wrong value of masked elements.
_STARTS = ("maximum_start", "padding_counted")
_HIDDEN = ("padding_counted", "maximum_start", "causal_missing")


def _masks(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Use the mask of another load or store, or another value of masked lanes."""
    if not isinstance(node, ast.Call) or called(node) not in ("load", "store"):
        return
    own, other, text = keyword(node, "mask"), keyword(node, "other"), scope.text(node)
    for mask in scope.masks:
        if own is None:
            yield scope.edit(node, f"{text[:-1]}, mask={mask})", TOO_WIDE, SOMETIMES)
        else:
            yield scope.edit(own, mask, (*TOO_WIDE, *SIZES))
            yield scope.edit(own, f"({scope.text(own)}) & ({mask})", TOO_WIDE)
    if called(node) == "load" and own is not None:
        for value in _PADDING:
            replaced, after = (node, f"{text[:-1]}, other={value})") if other is None else (other, value)
            yield scope.edit(replaced, after, ("padding_counted",))


def _of_masks(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Use in the address the index of the mask, or in the mask the index of the address."""
    mask = keyword(node, "mask") if isinstance(node, ast.Call) and called(node) in ("load", "store") else None
    if not scope.in_kernel or mask is None or not isinstance(node, ast.Call) or not node.args:
        return
    compared = (one.left for one in ast.walk(mask) if isinstance(one, ast.Compare))
    indices = {name for one in compared for name in names_in(one) if scope.known_from.get(name)}
    in_address = {name for name in names_in(node.args[0]) if scope.known_from.get(name)}
    for own, other in product(sorted(in_address - indices), sorted(indices - in_address)):
        kinds = ("wrong_address", "missing_mask", "operand_mixed_up")
        # One half of a tile, and the other: the second is computed from the first, or like it.
        meant = scope.meaning(ast.Name(own)), scope.meaning(ast.Name(other))
        is_near = own in names_in(meant[1]) or other in names_in(meant[0]) or names_in(meant[0]) == names_in(meant[1])
        weight = OFTEN if is_near else NOW_AND_THEN
        yield scope.edit(node.args[0], scope.renamed(node.args[0], {own: other}), kinds, weight)
        yield scope.edit(mask, scope.renamed(mask, {other: own}), ("missing_mask", *kinds), weight)


def _boundary_checks(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Check the block of a pointer along each axis."""
    if not isinstance(node, ast.Call) or called(node) not in ("load", "store") or keyword(node, "mask") is not None:
        return
    checked = keyword(node, "boundary_check")
    for axes in ("(0,)", "(1,)", "(0, 1)"):
        if checked is not None:
            yield scope.edit(checked, axes, TOO_WIDE, OFTEN)
        elif scope.has_block_pointers:
            yield scope.edit(node, f"{scope.text(node)[:-1]}, boundary_check={axes})", TOO_WIDE, OFTEN)


def _starts(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Use another value for hidden elements, or another start value."""
    if not scope.in_kernel or not isinstance(node, ast.Call):
        return
    place = {"where": 2, "full": 1}.get(called(node))
    if place is not None and len(node.args) > place:
        kinds = _STARTS if called(node) == "full" else _HIDDEN
        infinite = "inf" in scope.text(node.args[place])
        for value in _PADDING:
            from_infinity = ("inf_minus_inf",) if infinite and "inf" not in value else ()
            yield scope.edit(node.args[place], value, (*from_infinity, *kinds))
    if called(node) == "where" and len(node.args) == 3:
        if _ends_at_a_number(node.args[0]):
            yield scope.edit(node, scope.text(node.args[1]), _kinds_of_ends(scope, node), MOST)
        yield scope.edit(node, scope.text(node.args[1]), ("padding_counted", "value_shortcut"), NOW_AND_THEN)


def _kinds_of_ends(scope: Scope, choice: ast.Call) -> tuple[str, ...]:
    """Return the kinds of a choice that takes its first value only below a literal number."""
    _, taken, other = choice.args
    if isinstance(taken, ast.BinOp) and ast.dump(other) in (ast.dump(taken.left), ast.dump(taken.right)):
        # Above the number a step is missing: `tl.where(i < 64, acc * rescale, acc)`.
        return ("no_rescale", *FACTORS) if scope.target_of(choice)[0] else FACTORS
    return ("no_maximum",) if called(scope.parents.get(choice)) == "max" else ("not_all_covered",)


def _ends_at_a_number(condition: ast.expr) -> bool:
    """Return whether a condition holds only below a literal number, as in `columns < 8192`."""
    is_below = isinstance(condition, ast.Compare) and isinstance(condition.ops[0], ast.Lt | ast.LtE)
    end = condition.comparators[0] if isinstance(condition, ast.Compare) and is_below else None
    return isinstance(end, ast.Constant) and isinstance(end.value, int) and end.value > 1


IN_LANES: tuple[Finder, ...] = (_masks, _of_masks, _boundary_checks, _starts)
