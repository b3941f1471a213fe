"""List edits for quotients and remainders: rounding, groups of tiles, and parts of an index."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from grader.diagnosis.edits.edit_scope import (
    MOST,
    NOW_AND_THEN,
    OFTEN,
    SOMETIMES,
    Edit,
    Finder,
    Scope,
    called,
    names_in,
)
from grader.diagnosis.edits.loops import starts_a_loop

# The kinds of mistakes that an edit may take back; the first one is its own.
_ROUNDED_DOWN = ("remainder_skipped", "not_all_covered")
_ONE_MORE = ("count_too_large", "grid_too_large", "bad_index", "missing_mask", "done_again")
_PARTS = ("heads_mapping", "wrong_address", "bad_index", "axes_exchanged", "not_all_covered")
# Names of axes that are none of heads: their quotients and remainders choose no kv head.
_NOT_OF_HEADS = re.compile(r"page|slot|tile|block|split|row|col|tok|seq|pos|step", re.IGNORECASE)
_OF_HEADS = re.compile(r"head|group|h_?(q|kv)\b|(q|kv)_?h\b", re.IGNORECASE)


def _divisions(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Round a division up in place of down, or the reverse."""
    function = "tl.cdiv" if scope.in_kernel else "triton.cdiv"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
        yield scope.edit(node, f"{function}({scope.text(node.left)}, {scope.text(node.right)})", _ROUNDED_DOWN, OFTEN)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.left, ast.BinOp):
        adds_one = isinstance(node.left.op, ast.FloorDiv) and getattr(node.right, "value", None) == 1
        if adds_one:
            # One too many where the division leaves no remainder.
            yield scope.edit(
                node, f"{function}({scope.text(node.left.left)}, {scope.text(node.left.right)})", _ONE_MORE, OFTEN
            )
    match node:
        case ast.BinOp(ast.BinOp(whole, ast.FloorDiv(), by), ast.Mult(), again) if ast.dump(by) == ast.dump(again):
            # Whole blocks only: `n // BLOCK * BLOCK`.
            yield scope.edit(node, scope.text(whole), _ROUNDED_DOWN, OFTEN)
    if isinstance(node, ast.Call) and called(node) == "cdiv" and len(node.args) == 2:
        one, other = map(scope.text, node.args)
        kinds = ("grid_too_large", "missing_mask", "done_again", "causal_loop")
        weight = SOMETIMES if scope.in_kernel else NOW_AND_THEN
        if starts_a_loop(scope, node):
            # Round a start down, to visit the block that contains it.
            kinds, weight = ("loop_bounds", "causal_loop", "block_left_out", "done_again"), MOST
        yield scope.edit(node, f"(({one}) // ({other}))", kinds, weight)


def _last_groups(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Limit the last group of tiles to the rows that are left: `% GROUP` and `// GROUP` of one number in a group.

    A group has GROUP * columns programs, and there are num_programs // columns rows.
    """
    if not scope.in_kernel or not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mod):
        return
    # The group may have a second name: `height = GROUP`.
    place, group = scope.meaning(node.left), scope.text(scope.meaning(node.right))
    if not isinstance(place, ast.BinOp) or not isinstance(place.op, ast.Mod):
        # The remainder may be taken of the number itself: a group has a multiple of GROUP programs.
        place = next((one for one in _remainders(scope) if ast.dump(one.left) == ast.dump(node.left)), place)
    width = scope.meaning(place.right) if isinstance(place, ast.BinOp) and isinstance(place.op, ast.Mod) else None
    if not isinstance(place, ast.BinOp) or not isinstance(width, ast.BinOp) or not isinstance(width.op, ast.Mult):
        return
    sides = [scope.text(width.left), scope.text(width.right)]
    if group not in sides:
        return
    columns = sides[1 - sides.index(group)]
    first = f"({scope.text(place.left)} // ({scope.text(place.right)})) * {group}"
    rows = f"min(tl.num_programs(0) // ({columns}) - {first}, {group})"
    for other in ast.walk(scope.function):
        if not isinstance(other, ast.BinOp) or not isinstance(other.op, ast.FloorDiv):
            continue
        is_of_it = ast.dump(other.left) in (ast.dump(node.left), ast.dump(place))
        if is_of_it and scope.text(scope.meaning(other.right)) == group:
            (start, end), (second, last) = sorted((scope.span(node.right), scope.span(other.right)))
            between = scope.source[end:second].decode()
            before, after = scope.source[start:last].decode(), f"{rows}{between}{rows}"
            cut = f"min(rows - first row, {group})"
            shown = f"% {cut} … // {cut}", f"% {group} … // {group}"
            yield Edit(node.lineno, before, after, ("group_not_cut",), MOST, start, last, True, shown=shown)


def _remainders(scope: Scope) -> Iterator[ast.BinOp]:
    """Yield the remainders by the number of programs in a group, which are divided: `(pid % width) // GROUP`."""
    for one in ast.walk(scope.function):
        match one:
            case ast.BinOp(ast.BinOp(_, ast.Mod()) as remainder, ast.FloorDiv()):
                yield remainder


def _half_cut_groups(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Use one divisor for the remainder and the quotient of a number in a group: `local % rows`, `local // rows`."""
    if not scope.in_kernel or not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mod | ast.FloorDiv):
        return
    other_sign = ast.FloorDiv if isinstance(node.op, ast.Mod) else ast.Mod
    for other in ast.walk(scope.function):
        if not isinstance(other, ast.BinOp) or not isinstance(other.op, other_sign):
            continue
        is_cut = called(scope.meaning(other.right)) in ("min", "minimum")
        if is_cut and ast.dump(other.left) == ast.dump(node.left):
            yield scope.edit(node.right, scope.text(other.right), ("group_not_cut",), MOST)


def _quotients(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Exchange quotient, remainder and dividend, or divide an index."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.Mod):
        left, right = scope.text(node.left), scope.text(node.right)
        sign = "%" if isinstance(node.op, ast.FloorDiv) else "//"
        parts = _kinds_of_parts(f"{left} {right}")
        exchanged = parts if parts == _PARTS else ("parts_exchanged", *parts)
        yield scope.edit(node, f"({left} {sign} {right})", exchanged, OFTEN / 2)
        # A remainder by a literal number is right for the sizes below it only.
        assumed = isinstance(node.op, ast.Mod) and isinstance(node.right, ast.Constant)
        yield scope.edit(node, left, ("size_assumed", *parts) if assumed else parts, SOMETIMES / 2)
    if not scope.in_kernel or not isinstance(node, ast.expr):
        return
    parent = scope.parents.get(node)
    is_index = isinstance(node, ast.Name) and isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult)
    is_index |= isinstance(node, ast.Name) and (isinstance(parent, ast.List) or scope.is_compared(node))
    if is_index and isinstance(getattr(node, "ctx", None), ast.Load) and not scope.is_number(scope.text(node)):
        for divisor, sign in scope.divisors:
            parts = _kinds_of_parts(f"{scope.text(node)} {divisor}")
            yield scope.edit(node, f"({scope.text(node)} {sign} {divisor})", parts, SOMETIMES / 2)
    if isinstance(parent, ast.Assign) and isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
        for name in scope.sizes:
            # A stride and the length of a block count no parts.
            if name not in names_in(node) and name not in scope.lane_factors and name not in scope.blocks:
                yield scope.edit(node, f"({scope.text(node)}) % {name}", ("wrong_address", "bad_index", *_PARTS), OFTEN)


def _kinds_of_parts(text: str) -> tuple[str, ...]:
    """Return the kinds of a mistake in a quotient or a remainder: of heads, unless its names speak of other axes."""
    is_of_others = _NOT_OF_HEADS.search(text) and not _OF_HEADS.search(text)
    return tuple(kind for kind in _PARTS if kind != "heads_mapping") if is_of_others else _PARTS


IN_QUOTIENTS: tuple[Finder, ...] = (_divisions, _last_groups, _half_cut_groups, _quotients)
