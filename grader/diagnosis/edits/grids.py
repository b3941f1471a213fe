"""List edits of a launch's grid: too few programs, or the programs of another length.

They change launch code alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from grader.diagnosis.edits.edit_scope import (
    NOW_AND_THEN,
    OFTEN,
    RARELY,
    SOMETIMES,
    Edit,
    Finder,
    Scope,
    bare_name,
    called,
)

_KINDS = ("not_all_covered", "grid_too_large")
_OTHER_LENGTH = (
    "Each axis of the grid shares out one length, which the kernel takes apart by `tl.program_id`: count its programs "
    "over this length, triton.cdiv(length, block)."
)
_TOGETHER = "A part of a tile needs a program, too. Round up along each axis: cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)."
_OTHER_BLOCK = "A program takes {block} elements of this length: count the programs by that block."
LIMITED = (
    "Beyond the limit, no program takes the elements that are left. Launch one program for every block, or let each "
    "program take several blocks in a loop: range(pid, blocks, tl.num_programs(0))."
)


def _other_lengths(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Count the programs of a grid over another length of the launch code."""
    if not isinstance(node, ast.expr) or node not in scope.in_grids:
        return
    own, divisor = scope.text(node), _divisor(scope, node)
    if own not in scope.lengths or (divisor is None and not _is_factor(scope, node)):
        return
    counted = {*map(bare_name, scope.in_grids)}
    for length, line in scope.lengths.items():
        if length == own or line >= node.lineno:
            continue
        # A block of BLOCK_N divides N; and a length that no grid counts may be the one that is missing.
        fits = divisor is not None and length[-1:].lower() == scope.text(divisor)[-1:].lower()
        is_likely = divisor is not None and (fits or (length.isidentifier() and length not in counted))
        weight = SOMETIMES if is_likely else NOW_AND_THEN if divisor is not None else RARELY
        yield replace(scope.edit(node, length, _KINDS, weight), help=_OTHER_LENGTH)


def _missing_lengths(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Multiply a product of lengths that a grid counts by another length: B * T rows, of H heads each."""
    above = scope.parents.get(node)
    if not isinstance(node, ast.BinOp) or node not in scope.in_grids:
        return
    if isinstance(above, ast.BinOp) and isinstance(above.op, ast.Mult):
        return
    factors = [*map(scope.text, _factors(node))]
    if len(factors) < 2 or not {*factors} <= {*scope.lengths}:
        return
    for length, line in scope.lengths.items():
        if length not in factors and line < node.lineno:
            product = " * ".join([*factors, length])
            yield replace(scope.edit(node, product, _KINDS, SOMETIMES), help=_OTHER_LENGTH)


def _factors(node: ast.AST) -> list[ast.expr]:
    """Return the factors of a product; the expression itself if it is none."""
    match node:
        case ast.BinOp(left, ast.Mult(), right):
            return [*_factors(left), *_factors(right)]
    return [node] if isinstance(node, ast.expr) else []


def _exchanged_lengths(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Exchange the lengths over which two axes of a grid are counted."""
    if node not in scope.in_grids or not isinstance(node, ast.Tuple):
        return
    counted = [
        next((one for one in ast.walk(entry) if isinstance(one, ast.expr) and _divisor(scope, one)), None)
        for entry in node.elts
    ]
    for one, other in combinations([one for one in counted if one is not None], 2):
        exchanged = [(one, scope.text(other)), (other, scope.text(one))]
        yield replace(scope.joined(exchanged, ("axes_exchanged", *_KINDS), SOMETIMES), help=_OTHER_LENGTH)


def _divisor(scope: Scope, node: ast.AST) -> ast.expr | None:
    """Return what a division that counts blocks divides a node by; None if the node is no dividend."""
    match scope.parents.get(node):
        case ast.BinOp(left, ast.FloorDiv(), divisor) if left is node:
            return divisor
        case ast.Call(args=[dividend, divisor]) as call if dividend is node and called(call) == "cdiv":
            return divisor
    return None


def _other_blocks(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Divide a length by the block that the launch passes, and not by another number: `cdiv(n, 64)`, `BLOCK=32`."""
    if not isinstance(node, ast.expr) or node not in scope.in_grids:
        return
    divisor = _divisor(scope, node)
    if isinstance(divisor, ast.Constant):
        own = scope.text(divisor)
        for block in scope.passed_blocks:
            if block not in (own, scope.text(node)) and (block.isidentifier() or block.isdecimal()):
                yield replace(scope.edit(divisor, block, _KINDS, OFTEN), help=_OTHER_BLOCK.format(block=block))


def _is_factor(scope: Scope, node: ast.AST) -> bool:
    """Return whether a node is an entry of a grid, or a factor of one."""
    parent = scope.parents.get(node)
    return isinstance(parent, ast.Tuple) or (isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult))


def _rounded_together(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Round the tiles of each axis up by themselves: not cdiv(M * N, BLOCK_M * BLOCK_N)."""
    if node not in scope.in_grids:
        return
    match node:
        case ast.Call(args=[ast.BinOp(rows, ast.Mult(), columns), ast.BinOp(height, ast.Mult(), width)]) as call:
            if called(call) == "cdiv":
                down, across = (
                    f"{scope.text(call.func)}({scope.text(one)}, {scope.text(by)})"
                    for one, by in ((rows, height), (columns, width))
                )
                yield replace(scope.edit(call, f"{down} * {across}", _KINDS, OFTEN), help=_TOGETHER)


def _limits_of_grids(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Launch as many programs as there are blocks, without a limit: `min(128, blocks)`.

    If another axis of the grid counts what is beyond the limit, as `cdiv(blocks, limited)`, none is lost.
    """
    if node not in scope.in_grids or not isinstance(node, ast.Call) or called(node) != "min":
        return
    parent = scope.parents.get(node)
    limited = bare_name(parent.targets[0]) if isinstance(parent, ast.Assign) else scope.text(node)
    divisors = [_divisor(scope, one) for one in scope.in_grids]
    if limited in [scope.text(one) for one in divisors if one is not None]:
        return
    for one in node.args:
        if not isinstance(one, ast.Constant):
            yield replace(scope.edit(node, scope.text(one), _KINDS, OFTEN), help=LIMITED)


IN_GRIDS: tuple[Finder, ...] = (
    _other_lengths,
    _missing_lengths,
    _exchanged_lengths,
    _rounded_together,
    _limits_of_grids,
    _other_blocks,
)
