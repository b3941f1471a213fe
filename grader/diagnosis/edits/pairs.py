"""List edits of two places at once, and of indices, where a number is taken apart."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from grader.diagnosis.edits.edit_scope import MOST, OFTEN, SOMETIMES, Edit, Finder, Scope, bare_name

_EXCHANGED = ("parts_exchanged", "wrong_address", "bad_index", "axes_exchanged")
_DIVISORS = ("axes_exchanged", "wrong_address", "not_all_covered")
_INDICES = ("heads_mapping", "wrong_address", "axes_exchanged", "operand_mixed_up")
# Strides are multiples too, and larger.
_FEW = 2
_GROUPS = ("heads_mapping", "wrong_address", "bad_index")
_CONDITIONS = ("missing_mask", "causal_missing", "padding_counted")


def _parts_of_a_number(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Exchange a quotient and the remainder, in both places, or divide by the size of another axis in both."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.FloorDiv):
        return
    whole, divisor = scope.text(node.left), scope.text(node.right)
    whole = whole if isinstance(node.left, ast.Name) else f"({whole})"
    for other in ast.walk(scope.function):
        if not isinstance(other, ast.BinOp) or not isinstance(other.op, ast.Mod) or not _alike(node, other):
            continue
        one, two = sorted((node, other), key=scope.span)
        signs = ("//", "%") if one is node else ("%", "//")
        before = " … ".join(f"{whole} {sign} {divisor}" for sign in signs)
        after = [f"{whole} {sign} {divisor}" for sign in reversed(signs)]
        edit = scope.joined([(one, f"({after[0]})"), (two, f"({after[1]})")], _EXCHANGED, OFTEN)
        yield replace(edit, shown=(" … ".join(after), before))
        for name in scope.known_from:
            if _is_size(scope, name, node) and _is_one_letter_off(divisor, name):
                edit = scope.joined([(one.right, name), (two.right, name)], _DIVISORS, MOST)
                yield replace(edit, shown=(" … ".join(f"{whole} {sign} {name}" for sign in signs), before))


def _alike(one: ast.BinOp, other: ast.BinOp) -> bool:
    return ast.dump(one.left) == ast.dump(other.left) and ast.dump(one.right) == ast.dump(other.right)


def _is_size(scope: Scope, name: str, node: ast.expr) -> bool:
    """Return whether a name has a value at a node, and may be a number."""
    return scope.known_from[name] < node.lineno and (name not in scope.arguments or scope.is_number(name))


def _is_one_letter_off(one: str, other: str) -> bool:
    return len(one) == len(other) and sum(a != b for a, b in zip(one, other, strict=True)) == 1


def _indices_of_strides(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Multiply a stride by another index of the function: `head * stride_vh` beside `kv_head * stride_kh`."""
    if not scope.in_kernel or (own := _index_of(scope, node)) is None:
        return
    others = (_index_of(scope, one) for one in ast.walk(scope.function))
    # Perhaps nothing reads the right one.
    idle = [one for one in sorted(scope.idle) if "stride" not in one.lower()]
    for name in dict.fromkeys([*(one.id for one in others if one is not None), *idle]):
        if name != own.id and _is_size(scope, name, own):
            yield scope.edit(own, name, _INDICES, SOMETIMES)


def _index_of(scope: Scope, node: ast.AST) -> ast.Name | None:
    """Return the index in a product of an index with a number that the launch gives."""
    match node:
        case ast.BinOp(ast.Name() as index, ast.Mult(), ast.Name(stride)) if scope.is_number(stride):
            # A constant is the size of a block, and no stride.
            is_own = bare_name(index) in scope.known_from and index.id not in scope.arguments
            return index if is_own and not stride.isupper() else None
    return None


def _neighbours_in_groups(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Divide by the size of a group of neighbours, and not by the number of groups: `head // (heads // kv_heads)`.

    `head % kv_heads` puts every kv_heads-th head into one group, and so does `group + row * groups`.
    """
    if not scope.in_kernel or not isinstance(node, ast.BinOp):
        return
    match node:
        case ast.BinOp(index, ast.Mod() | ast.FloorDiv(), ast.Name(groups)):
            for whole in _multiples(scope, groups)[:_FEW]:
                yield scope.edit(node, f"({scope.text(index)} // ({whole} // {groups}))", _GROUPS, OFTEN)
        case ast.BinOp(group, ast.Add(), ast.BinOp(row, ast.Mult(), ast.Name(groups))):
            for size in scope.sizes:
                if size != groups and scope.values.get(size) != 1:
                    yield scope.edit(node, f"({scope.text(group)} * {size} + {scope.text(row)})", _GROUPS, SOMETIMES)


def _multiples(scope: Scope, part: str) -> list[str]:
    """Return the numbers of a launch that are multiples of one of them, and larger: the smallest first."""
    own = scope.values.get(part)
    numbers = {one: scope.values.get(one) for one in scope.sizes if one not in scope.constants}
    if type(own) is not int or own <= 0:
        return []
    larger = {one: value for one, value in numbers.items() if type(value) is int and value > own and value % own == 0}
    return sorted(larger, key=lambda one: larger[one])


def _both_conditions(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Ask for both conditions, and not for one of them: `(rows < M) | (columns < N)`."""
    match node:
        case ast.BinOp(ast.Compare() as one, ast.BitOr(), ast.Compare() as other) if scope.in_kernel:
            yield scope.edit(node, f"({scope.text(one)}) & ({scope.text(other)})", _CONDITIONS, MOST)


def _strides_of_others(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Pass the strides of a tensor that a launch gets, and not those of another one again.

    `kernel[grid](x, y, *x.stride(), *x.stride())`
    """
    if scope.in_kernel or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Subscript):
        return
    seen: set[str] = set()
    again: list[ast.Name] = []
    named: set[str] = set()
    for call, tensor in sorted(_strides_in(node), key=lambda one: scope.span(one[0])):
        if scope.text(call) in seen:
            again.append(tensor)
        seen.add(scope.text(call))
        named.add(tensor.id)
    repeated = [*dict.fromkeys(one.id for one in again)]
    without = [name for name in map(bare_name, node.args) if name not in named and _is_tensor(scope, name)]
    for first in range(len(without) - len(repeated) + 1) if repeated else ():
        others = dict(zip(repeated, without[first:], strict=False))
        yield scope.joined([(one, others[one.id]) for one in again], ("strides_ignored",), MOST)


def _strides_for_lengths(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Pass the distance of rows to a launch, and not their length: `x.stride(0)`, `x.shape[1]`."""
    launch = scope.parents.get(node)
    if scope.in_kernel or not isinstance(launch, ast.Call) or not isinstance(launch.func, ast.Subscript):
        return
    match node:
        case ast.Subscript(ast.Attribute(ast.Name(tensor), "shape"), ast.Constant(int() as axis)) if axis > 0:
            yield scope.edit(node, f"{tensor}.stride({axis - 1})", ("strides_ignored",), MOST)


def _strides_in(launch: ast.Call) -> Iterator[tuple[ast.Call, ast.Name]]:
    """Yield the calls of a launch's arguments that return strides, each with its tensor."""
    for one in ast.walk(launch):
        match one:
            case ast.Call(ast.Attribute(ast.Name() as tensor, "stride")):
                yield one, tensor


def _is_tensor(scope: Scope, name: str) -> bool:
    """Return whether a name of launch code may be a tensor: an argument, or memory that torch allocates."""
    allocated = (scope.text(one) for one in scope.given.get(name, ()))
    return bool(name) and (name in scope.arguments or any(one.startswith("torch.") for one in allocated))


IN_PAIRS: tuple[Finder, ...] = (
    _both_conditions,
    _parts_of_a_number,
    _indices_of_strides,
    _neighbours_in_groups,
    _strides_of_others,
    _strides_for_lengths,
)
