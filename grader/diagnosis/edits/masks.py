"""List edits for masks that leave out existing elements, or let in those of another program."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from grader.diagnosis.edits.edit_scope import MOST, SOMETIMES, Edit, Finder, Scope, called, keyword
from grader.syntax import conditions_apart

# The kinds of a mask that lets too much through, and of one that lets too little through.
TOO_WIDE = ("missing_mask", "padding_counted")
TOO_NARROW = ("last_left_out", "block_left_out", "not_all_covered")
_BY_VALUES = ("masked_by_values", "value_shortcut")
_BEFORE = ("starts_before", "done_again")
_OF_WHERE = 3
# Functions that return positions: a condition on them is about the place of an element.
_OF_POSITIONS = frozenset({"arange", "program_id", "range", "static_range"})


def _value_conditions(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Remove conditions on loaded values from a mask: an element exists whatever the value of another one."""
    own = keyword(node, "mask") if isinstance(node, ast.Call) and called(node) in ("load", "store") else None
    if not scope.in_kernel or own is None:
        return
    whole = scope.meaning(own)
    conditions = [*conjuncts(whole)]
    kept = [one for one in conditions if not _is_by_values(scope, one)]
    if len(kept) == len(conditions):
        return
    if kept:
        after = scope.text(kept[0]) if len(kept) == 1 else " & ".join(f"({scope.text(one)})" for one in kept)
        for place in dict.fromkeys((own, whole)):
            yield scope.edit(place, after, _BY_VALUES, MOST)
        return
    for mask in scope.mask_nodes:
        if not any(_is_by_values(scope, one) for one in conjuncts(scope.meaning(mask))):
            yield scope.edit(own, scope.text(mask), _BY_VALUES, MOST)


def conjuncts(mask: ast.expr) -> Iterator[ast.expr]:
    """Yield the conditions of a mask that must all hold."""
    if isinstance(mask, ast.BinOp) and isinstance(mask.op, ast.BitAnd):
        yield from conjuncts(mask.left)
        yield from conjuncts(mask.right)
    else:
        yield mask


def _is_by_values(scope: Scope, condition: ast.expr) -> bool:
    """Return whether a condition depends on loaded values, and on no position."""
    names = {called(one) for one in scope.origins(condition, until=("load",))}
    return "load" in names and not names & _OF_POSITIONS


def _starts_of_parts(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Mask out elements before a part, if a loop over the part begins with the whole block of its first element."""
    if not scope.in_kernel or not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Lt):
        return
    origins = scope.origins(node.left)
    if len(node.ops) > 1 or not any(called(one) == "arange" for one in origins):
        return
    index = scope.text(node.left)
    for loop in scope.ranges:
        if len(loop.args) > 1 and loop in origins:
            for first in dict.fromkeys(_rounded_down(scope, loop.args[0])):
                yield scope.edit(node, f"(({scope.text(node)}) & ({index} >= {first}))", _BEFORE, MOST)


def _rounded_down(scope: Scope, start: ast.expr) -> Iterator[str]:
    """Yield the numbers that the start of a loop rounds down: `first // size`, `first - first % size`."""
    meant = [scope.meaning(one) for one in ast.walk(start) if isinstance(one, ast.Name)]
    for one in (one for tree in (start, *meant) for one in ast.walk(tree)):
        if isinstance(one, ast.BinOp) and isinstance(one.op, ast.FloorDiv | ast.Mod):
            yield scope.text(one.left) if isinstance(one.left, ast.Name) else f"({scope.text(one.left)})"


def _value_choices(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Compute for all values, without a shortcut for some: `tl.where(x == 0.0, z, x * y + z)`."""
    if scope.in_kernel and isinstance(node, ast.Call) and called(node) == "where" and len(node.args) == _OF_WHERE:
        condition, _, other = node.args
        if isinstance(other, ast.BinOp | ast.Call) and _is_by_values(scope, condition):
            yield scope.edit(node, f"({scope.text(other)})", ("value_shortcut",), SOMETIMES)


def conditions_in_brackets(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Put each condition into brackets: `rows & columns < n` compares `rows & columns` with n."""
    if not scope.in_kernel or not isinstance(node, ast.Compare):
        return
    parts = conditions_apart(node)
    if not isinstance(parts, ast.Compare):
        after = ast.unparse(parts)
        help_text = f"`&` and `|` bind more tightly than a comparison: write `{after}`."
        yield replace(scope.edit(node, after, ("brackets_missing",), MOST), help=help_text)


IN_MASKS: tuple[Finder, ...] = (
    _value_conditions,
    _value_choices,
    _starts_of_parts,
    conditions_in_brackets,
)
