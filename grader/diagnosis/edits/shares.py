"""List edits for shares of the work that overlap, or that are rounded down: no program has the last elements.

A share that is rounded up must end where the work ends, so such an edit changes several places of a kernel at once.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from grader.diagnosis.edits.edit_scope import (
    MOST,
    OFTEN,
    SOMETIMES,
    Edit,
    Finder,
    Scope,
    addends,
    bare_name,
    called,
    keyword,
    names_in,
)

_KINDS = ("remainder_skipped", "not_all_covered")
_BLOCKS_IN_A_LOOP = "A program takes {count} blocks in its loop: the next program starts after all of them."
_OVERLAPPING = ("not_all_covered", "done_again", "wrong_address")


def _rounded_shares(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Round a program's share up, and limit its loops and comparisons, or its masks, to the whole length."""
    if not scope.in_kernel or not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.FloorDiv):
        return
    whole, parent = bare_name(node.left), scope.parents.get(node)
    if not scope.is_number(whole):
        return
    share = bare_name(parent.targets[0]) if isinstance(parent, ast.Assign) else ""
    rounded = f"tl.cdiv({scope.text(node.left)}, {scope.text(node.right)})"
    weight = MOST if called(scope.meaning(node.right)) == "num_programs" else SOMETIMES
    ends = [(end, f"tl.minimum({scope.text(end)}, {whole})") for end in _ends_by(scope, share, node)]
    masks = [(mask, f"({scope.text(mask)}) & ({index} < {whole})") for mask, index in _masked_by_index(scope)]
    for places in (ends, masks):
        behind = [(place, after) for place, after in places if scope.span(place)[0] > scope.span(node)[1]]
        if behind and len(behind) == len(places):
            first = behind[0][0].lineno
            what = "an end" if places is ends else "a mask"
            shown = f"{rounded}, and {what} at {whole} in line {first},", scope.text(node)
            yield replace(scope.joined([(node, rounded), *behind], _KINDS, weight), shown=shown)


def _shares_of_the_last(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Let the last program continue to the end of the work, if launch code gives each program its share."""
    if not scope.in_kernel or not isinstance(node, ast.FunctionDef):
        return
    for share in scope.arguments:
        if not scope.is_number(share) or not _is_taken_by_programs(scope, share):
            continue
        ends = _ends_by(scope, share, None)
        for whole in scope.sizes if ends else ():
            if whole != share:
                last = "tl.program_id(0) == tl.num_programs(0) - 1"
                places = [(end, f"tl.where({last}, {whole}, {scope.text(end)})") for end in ends]
                shown = f"{whole}, in the last program,", scope.text(ends[0])
                yield replace(scope.joined(places, _KINDS, SOMETIMES), shown=shown)


def _starts_of_shares(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Start a program after all the blocks that the one before takes in a loop: `pid * (BLOCK * ITEMS)`."""
    if not scope.in_kernel or not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return
    counts = {name for loop in scope.ranges for name in map(bare_name, loop.args)} & {*scope.constants}
    for program, block in ((node.left, node.right), (node.right, node.left)):
        if bare_name(block) in scope.constants and any(called(one) == "program_id" for one in scope.origins(program)):
            for count in sorted(counts - names_in(scope.parents[node]) - names_in(node)):
                edit = scope.edit(block, f"({scope.text(block)} * {count})", _OVERLAPPING, OFTEN)
                yield replace(edit, help=_BLOCKS_IN_A_LOOP.format(count=count))


def _is_taken_by_programs(scope: Scope, share: str) -> bool:
    """Return whether a program starts at its number times an argument."""
    products = (one for one in ast.walk(scope.function) if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult))
    sides = ((one.left, one.right) for one in products)
    return any(
        bare_name(one) == share and "program_id" in scope.text(scope.meaning(other))
        for pair in sides
        for one, other in (pair, pair[::-1])
    )


def _ends_by(scope: Scope, share: str, division: ast.BinOp | None) -> list[ast.expr]:
    """Return the ends of loops and of comparisons that depend on a share, in the order of the text."""
    names = {share} - {""}
    for one in ast.walk(scope.function):
        if isinstance(one, ast.Assign) and names_in(one.value) & names:
            names.add(bare_name(one.targets[0]))
    ends = [loop.args[min(1, len(loop.args) - 1)] for loop in scope.ranges]
    compared = (one for one in ast.walk(scope.function) if isinstance(one, ast.Compare) and len(one.ops) == 1)
    ends += [one.comparators[0] for one in compared if isinstance(one.ops[0], ast.Lt)]
    found = [one for one in ends if names_in(one) & names or (division and division in ast.walk(one))]
    return sorted(found, key=scope.span)


def _masked_by_index(scope: Scope) -> Iterator[tuple[ast.expr, str]]:
    """Yield the masks of loads and stores, each with the index that the address adds to a pointer."""
    calls = [one for one in ast.walk(scope.function) if isinstance(one, ast.Call)]
    for one in sorted(calls, key=scope.span):
        mask = keyword(one, "mask") if called(one) in ("load", "store") else None
        terms = addends(one.args[0])[1:] if mask is not None and one.args else []
        if mask is not None and terms:
            yield mask, " + ".join(map(scope.text, terms))


IN_SHARES: tuple[Finder, ...] = (
    _rounded_shares,
    _shares_of_the_last,
    _starts_of_shares,
)
