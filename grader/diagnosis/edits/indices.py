"""List edits for small mistakes in indices."""

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
    addends,
    bare_name,
    called,
)

# The kinds of a sum of quotients.
_QUOTIENTS = ("remainder_skipped", "loop_bounds", "block_left_out", "last_left_out", "not_all_covered")
# The kinds of a part that begins within the part before.
_UNEVEN = ("not_all_covered", "position_shifted", "remainder_skipped", "done_again")
# The kinds of an index that counts from another start.
_STARTS = ("relative_index", "position_shifted", "wrong_address", "bad_index", "missing_mask", "past_length")
# The kinds of a stride that is not used, and the most such arguments of a kernel.
_STRIDES = ("strides_ignored", "wrong_address")
_MOST_IDLE = 2


def _relative_indices(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Replace an index within a part by that of the whole, or the reverse: `slot = first + at`."""
    if not scope.in_kernel or not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
        return
    for whole, terms in scope.sums.items():
        if node.id in terms and whole != node.id and scope.known_from[whole] < node.lineno:
            yield scope.edit(node, whole, _STARTS, SOMETIMES)
    for term in sorted(scope.sums.get(node.id, ())):
        yield scope.edit(node, term, _STARTS, SOMETIMES / 2)


def _blocks_without_a_start(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Replace the lanes of a block by their places in the tensor: `columns = start + tl.arange(0, BLOCK)`."""
    if not scope.in_kernel or not isinstance(node, ast.Call) or called(node) != "arange":
        return
    for name, values in scope.given.items():
        for value in values:
            parts = addends(value)
            begins_elsewhere = len(parts) > 1 and any(ast.dump(one) == ast.dump(node) for one in parts)
            if begins_elsewhere and node not in parts and scope.known_from.get(name, node.lineno) < node.lineno:
                yield scope.edit(node, name, _STARTS, OFTEN)


def _sums_of_quotients(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Divide the sum, and not its terms: a tile of rows may begin and end within a group."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return
    match scope.meaning(node.left), scope.meaning(node.right):
        case ast.BinOp(one, ast.FloorDiv(), by), ast.BinOp(other, ast.FloorDiv(), also_by):
            divisor, total = scope.text(by), f"{scope.text(one)} + {scope.text(other)}"
            # A part of a bound is a position, and not a count.
            is_whole = isinstance(scope.parents.get(node), ast.Assign | ast.Call)
            ends_a_loop = any(node in scope.origins(bound) for loop in scope.ranges for bound in loop.args)
            kinds = ("loop_bounds", *_QUOTIENTS) if ends_a_loop and not is_whole else _QUOTIENTS
            if divisor == scope.text(also_by):
                yield scope.edit(node, f"(({total} - 1) // {divisor} + 1)", kinds, OFTEN)
                yield scope.edit(node, f"(({total}) // {divisor})", kinds, OFTEN)


def _uneven_starts(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Begin after the additional elements of earlier parts: `part * share`, if the first parts take one more."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult) or not scope.in_kernel:
        return
    for share, part in ((node.left, node.right), (node.right, node.left)):
        match scope.meaning(share):
            case ast.BinOp(whole, ast.FloorDiv(), parts) if isinstance(share, ast.Name) and _numbers_a_part(
                scope, part
            ):
                for left_over in scope.remainders.get((scope.text(whole), scope.text(parts)), ()):
                    after = f"({scope.text(node)} + tl.minimum({scope.text(part)}, {left_over}))"
                    yield scope.edit(node, after, _UNEVEN, MOST)


def _numbers_a_part(scope: Scope, node: ast.expr) -> bool:
    """Return whether an expression is the number of a part: a name of the function's own, and no size of a block."""
    return bool(bare_name(node)) and bare_name(node) not in scope.arguments


def _other_wholes(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Divide the same number for the remainder and the quotient: `tiles // programs`, `n % programs`."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mod | ast.FloorDiv):
        return
    for other in ast.walk(scope.function):
        match other:
            case ast.BinOp(whole, ast.Mod() | ast.FloorDiv() as sign, divisor) if type(sign) is not type(node.op):
                if scope.text(divisor) == scope.text(node.right):
                    yield scope.edit(node.left, scope.text(whole), _UNEVEN, 2 * OFTEN)


def _other_divisors(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Divide by the same number for the quotient and the remainder of one number: `i // heads`, `i % heads`."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mod | ast.FloorDiv):
        return
    divisors = [
        scope.text(one.right)
        for one in ast.walk(scope.function)
        if isinstance(one, ast.BinOp)
        and isinstance(one.op, ast.Mod | ast.FloorDiv)
        and type(one.op) is not type(node.op)
        and scope.text(one.left) == scope.text(node.left)
    ]
    if scope.text(node.right) not in divisors:
        for divisor in dict.fromkeys(divisors):
            yield scope.edit(node.right, divisor, ("parts_exchanged", "wrong_address"), OFTEN)


def _steps(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Advance a pointer by another number for each row of a block: `ptr += ROWS * D`."""
    if not scope.in_kernel or not isinstance(node, ast.AugAssign) or not isinstance(node.op, ast.Add):
        return
    match node.value:
        case ast.BinOp(one, ast.Mult(), other):
            may_be = (name for name in scope.arguments if not name.isupper() and not name.endswith("ptr"))
            numbers = filter(scope.is_number, may_be)
            for factor, name in product((one, other), numbers):
                if bare_name(factor) in scope.arguments:
                    yield scope.edit(factor, name, ("strides_ignored", "not_advanced", "wrong_address"), SOMETIMES / 2)


def _unrounded_ends(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Round a number of elements down to whole blocks, if it is the end of a loop or goes to another function."""
    if not scope.in_kernel or not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return
    name = bare_name(node.targets[0])
    if called(node.value) not in ("minimum", "maximum", "min", "max") or name not in scope.handed_on:
        return
    for block in (one for one in scope.arguments if "BLOCK" in one or "TILE" in one):
        after = f"{scope.text(node.value)} // {block} * {block}"
        yield scope.edit(node.value, after, ("loop_bounds", "causal_loop", "past_length", "done_again"), SOMETIMES)


def _idle_strides(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Use a stride that nothing reads, in place of any other factor of an index.

    Kernels with many such arguments were written for other tensors too: there it shows nothing.
    """
    strides = [one for one in scope.arguments if one in scope.idle and "stride" in one.lower()]
    if not scope.in_kernel or len(strides) > _MOST_IDLE or not isinstance(node, ast.Name | ast.Constant):
        return
    parent = scope.parents.get(node)
    is_factor = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult)
    if is_factor and scope.fitting(node, _STRIDES) == _STRIDES:
        for stride in strides:
            yield scope.edit(node, stride, _STRIDES, NOW_AND_THEN)


def _counted_steps(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Multiply the number of a loop's step by the length of a block, where it is added to an index: `step + lanes`."""
    parent = scope.parents.get(node)
    is_addend = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Add)
    if not scope.in_kernel or not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load) or not is_addend:
        return
    loops = [one for one in ast.walk(scope.function) if isinstance(one, ast.For)]
    if any(bare_name(one.target) == node.id and _by_ones(one) for one in loops):
        for block in (one for one in scope.arguments if "BLOCK" in one or "TILE" in one):
            yield scope.edit(
                node, f"{node.id} * {block}", ("wrong_address", "position_shifted", "done_again"), SOMETIMES
            )


def _by_ones(loop: ast.For) -> bool:
    """Return whether a loop counts its steps: `range(n)`, or `range(0, n, 1)`."""
    steps = loop.iter.args[2:] if isinstance(loop.iter, ast.Call) else []
    return isinstance(loop.iter, ast.Call) and all(getattr(one, "value", None) == 1 for one in steps)


def _other_programs(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Load one number by another index of the program: `tl.load(lengths_ptr + head)` for a batch's length."""
    if not scope.in_kernel or not isinstance(node, ast.Call) or called(node) != "load" or not node.args:
        return
    address = node.args[0]
    index = address.right if isinstance(address, ast.BinOp) and isinstance(address.op, ast.Add) else None
    if not isinstance(index, ast.Name) or not _is_of_program(scope, index.id):
        return
    for name, line in scope.known_from.items():
        if name != index.id and line < node.lineno and _is_of_program(scope, name):
            yield scope.edit(index, name, ("wrong_address", "bad_index", "axes_exchanged"), OFTEN)


def _is_of_program(scope: Scope, name: str) -> bool:
    """Return whether a name is a single number that is computed from the program's place in the grid."""
    made_by = {called(one) for one in scope.origins(ast.Name(name)) if isinstance(one, ast.Call)}
    return "program_id" in made_by and made_by.isdisjoint({"arange", "load", "range"})


IN_INDICES: tuple[Finder, ...] = (
    _relative_indices,
    _blocks_without_a_start,
    _sums_of_quotients,
    _uneven_starts,
    _other_wholes,
    _other_divisors,
    _steps,
    _unrounded_ends,
    _idle_strides,
    _other_programs,
    _counted_steps,
)
