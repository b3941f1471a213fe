"""List small edits of a submission's text. Each takes back one small mistake.

Takes the text, and the functions that a call ran. Gives edits, the likeliest first. It runs nothing. An edit replaces
one expression and moves no line.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from grader.exercise.definitions import spans_of
from grader.text import ONE_PARSE_AT_A_TIME

# Weights, by how often people make the mistake that an edit takes back. The first is of a literal too much.
_MOST, _OFTEN, _SOMETIMES, _RARELY = 1.2, 1.0, 0.6, 0.4
# The kinds of mistakes that an edit may take back; the first one is its own.
_SIZES = ("axes_exchanged", "wrong_address", "not_all_covered", "missing_mask", "strides_ignored", "bad_index")
_STRIDES = ("strides_ignored", "axes_exchanged", "wrong_address")
_TENSORS = ("operand_mixed_up", "copies_input")
_TOO_WIDE = ("missing_mask", "padding_counted")
_TOO_NARROW = ("last_left_out", "block_left_out", "not_all_covered")
_TERMS = ("position_shifted", "wrong_address", "missing_mask", "last_left_out", "block_left_out")
_FACTORS = ("wrong_factor", "wrong_address", "not_all_covered", "scale_missing")
_ADDRESSES = ("wrong_address", "not_all_covered", "done_again", "strides_ignored", "stores_collide")
_ROUNDED_DOWN = ("remainder_skipped", "not_all_covered")
_DTYPES = ("low_precision_sum", "rounded_intermediate", "wrong_dtype")
# Comparisons, and the same with the other treatment of the bound.
_FLIPPED: Mapping[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<=", _TOO_NARROW),
    ast.LtE: ("<", _TOO_WIDE),
    ast.Gt: (">=", _TOO_NARROW),
    ast.GtE: (">", _TOO_WIDE),
}
# Functions along an axis, and functions whose arguments are axes.
_REDUCTIONS = frozenset({"sum", "max", "min", "argmax", "argmin", "reduce"})
_OF_AXES = frozenset({"program_id", "num_programs", "stride", "size"})
# Functions of torch that allocate, and those that clear the memory.
_CLEARED = {"empty": "zeros", "empty_like": "zeros_like", "new_empty": "new_zeros"}
# The arguments of a launch, by place and by name: numbers and texts; None for what has no such value.
Launched = tuple[Sequence[object], Mapping[str, object]]
# Values of masked lanes.
_PADDING = ("0.0", 'float("-inf")', 'float("inf")')


@dataclass(frozen=True)
class Edit:
    """A small edit of a text.

    kinds: of the mistakes that it may take back. weight: its likelihood beside other edits. start, end: what is
    replaced, in bytes. in_kernel: launch code stays as it is.
    """

    line: int
    before: str
    after: str
    kinds: tuple[str, ...]
    weight: float
    start: int
    end: int
    in_kernel: bool

    def applied(self, source: str) -> str:
        """Return the text with the edit."""
        data = source.encode()
        return (data[: self.start] + self.after.encode() + data[self.end :]).decode()


@dataclass(frozen=True)
class _Scope:
    """A function of the text. launched: the arguments of a kernel's launch; None for launch code."""

    function: ast.FunctionDef
    source: bytes
    starts: tuple[int, ...]
    launched: Launched | None

    @property
    def in_kernel(self) -> bool:
        """Return whether the function is a kernel."""
        return self.launched is not None

    def span(self, node: ast.expr) -> tuple[int, int]:
        """Return the first byte of an expression, and the one behind it."""
        last = self.starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        return self.starts[node.lineno - 1] + node.col_offset, last

    def text(self, node: ast.expr) -> str:
        """Return the text of an expression."""
        start, end = self.span(node)
        return self.source[start:end].decode()

    def edit(self, node: ast.expr, after: str, kinds: tuple[str, ...], weight: float = _SOMETIMES) -> Edit:
        """Return the edit that replaces an expression."""
        start, end = self.span(node)
        return Edit(node.lineno, self.text(node), after, kinds, weight, start, end, self.in_kernel)

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """Return the names of the function's arguments."""
        own = self.function.args
        return tuple(one.arg for one in (*own.posonlyargs, *own.args, *own.kwonlyargs))

    @cached_property
    def values(self) -> Mapping[str, object]:
        """Return the values of the arguments, as far as they are known."""
        by_place, by_name = self.launched or ((), {})
        return {**dict(zip(self.arguments, by_place, strict=False)), **by_name}

    @cached_property
    def parents(self) -> Mapping[ast.AST, ast.AST]:
        """Return the parent of every node."""
        return {child: node for node in ast.walk(self.function) for child in ast.iter_child_nodes(node)}

    @cached_property
    def known_from(self) -> Mapping[str, int]:
        """Return every name of the function, and the line behind which it has a value."""
        names: dict[str, int] = dict.fromkeys(self.arguments, 0)
        for node in ast.walk(self.function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.setdefault(node.id, node.lineno)
        return names

    @cached_property
    def masks(self) -> tuple[str, ...]:
        """Return the masks of loads and stores."""
        calls = (node for node in ast.walk(self.function) if isinstance(node, ast.Call))
        return tuple(dict.fromkeys(self.text(one) for call in calls if (one := _keyword(call, "mask")) is not None))

    def is_number(self, name: str) -> bool:
        """Return whether an argument may be a number."""
        return name in self.arguments and isinstance(self.values.get(name, 0), int | float)


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((one.value for one in call.keywords if one.arg == name), None)


def _called(call: ast.AST | None) -> str:
    """Return the last name of a called function; "" for any other node."""
    function = call.func if isinstance(call, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def edits_of(source: str, kernels: Mapping[tuple[str, int], Launched], launching: str) -> list[Edit]:
    """Return the edits of the functions that a call ran, the likeliest first.

    kernels: by name and first line, the arguments of their launches. launching: the function that was called.
    """
    data = source.encode()
    starts = (0, *(match.end() for match in re.finditer(b"\r\n|\r|\n", data)))
    found: dict[tuple[int, int, str], Edit] = {}
    for function, launched in _functions(source, kernels, launching):
        scope = _Scope(function, data, starts, launched)
        for node in ast.walk(function):
            for edit in (edit for find in _FINDERS for edit in find(scope, node) if edit.after != edit.before):
                found.setdefault((edit.start, edit.end, edit.after), edit)
    # Those of launch code need a process each.
    return sorted(found.values(), key=lambda one: (-one.weight, not one.in_kernel, one.line, one.start))


def _functions(
    source: str, kernels: Mapping[tuple[str, int], Launched], launching: str
) -> Iterator[tuple[ast.FunctionDef, Launched | None]]:
    """Yield the functions that a call ran: kernels with their arguments, then launch code with None."""
    with ONE_PARSE_AT_A_TIME:
        functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    others = []
    for one in functions:
        lines = (one.lineno, *(decorator.lineno for decorator in one.decorator_list))
        launched = next((kernels[one.name, line] for line in lines if (one.name, line) in kernels), None)
        if launched is not None:
            yield one, launched
        else:
            others.append(one)
    spans = spans_of(source, launching)
    yield from ((one, None) for one in others if any(first <= one.lineno <= last for first, last in spans))


# -- mistakes: (scope, node) -> edits ----------------------------------------------------------------------------------


def _names(scope: _Scope, node: ast.AST) -> Iterator[Edit]:
    """Take a name that differs in one letter: another axis's stride or block, another tensor, another size."""
    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
        return
    for name, line in scope.known_from.items():
        if line < node.lineno and _is_one_letter_off(node.id, name) and _may_matter(scope, node.id, name):
            yield scope.edit(node, name, _kinds_of_names(scope, node.id), _OFTEN)


def _is_one_letter_off(one: str, other: str) -> bool:
    differ = [(a, b) for a, b in zip(one, other, strict=False) if a != b]
    return len(one) == len(other) and len(differ) == 1 and differ[0][0].isupper() == differ[0][1].isupper()


def _may_matter(scope: _Scope, one: str, other: str) -> bool:
    """Return whether two names may have different values of one type."""
    first, second = scope.values.get(one), scope.values.get(other)
    if first is None or second is None:
        return True
    return type(first) is type(second) and (first != second or not scope.is_number(one))


def _kinds_of_names(scope: _Scope, name: str) -> tuple[str, ...]:
    if "stride" in name.lower():
        return _STRIDES
    return _SIZES if not scope.in_kernel or scope.is_number(name) else _TENSORS


def _bounds(scope: _Scope, node: ast.AST) -> Iterator[Edit]:
    """Include a bound, or leave it out."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _FLIPPED:
        flipped, kinds = _FLIPPED[type(node.ops[0])]
        yield scope.edit(node, f"{scope.text(node.left)} {flipped} {scope.text(node.comparators[0])}", kinds, _OFTEN)


def _divisions(scope: _Scope, node: ast.AST) -> Iterator[Edit]:
    """Round up what is rounded down, and the reverse."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
        function = "tl.cdiv" if scope.in_kernel else "triton.cdiv"
        yield scope.edit(node, f"{function}({scope.text(node.left)}, {scope.text(node.right)})", _ROUNDED_DOWN, _OFTEN)
    if isinstance(node, ast.Call) and _called(node) == "cdiv" and len(node.args) == 2:
        one, other = map(scope.text, node.args)
        yield scope.edit(node, f"(({one}) // ({other}))", ("grid_too_large", "missing_mask", "done_again"))


def _operands(scope: _Scope, node: ast.AST) -> Iterator[Edit]:
    """Leave out an operand, or exchange two that have an order."""
    if not isinstance(node, ast.BinOp):
        return
    left, right = scope.text(node.left), scope.text(node.right)
    match node.op:
        case ast.Add() | ast.Sub():
            yield scope.edit(node, left, _TERMS, _MOST if isinstance(node.right, ast.Constant) else _SOMETIMES)
        case ast.Mult() | ast.Div():
            yield scope.edit(node, left, _FACTORS)
        case ast.Pow():
            yield scope.edit(node, f"{left}**-({right})", ("scale_inverted", "wrong_factor"))
    if isinstance(node.op, ast.Add | ast.Mult):
        yield scope.edit(node, right, _TERMS if isinstance(node.op, ast.Add) else _FACTORS)
    if isinstance(node.op, ast.Sub):
        yield scope.edit(node, f"(({right}) - ({left}))", ("wrong_factor", "no_rescale"))


def _numbers(scope: _Scope, node: ast.AST) -> Iterator[Edit]:
    """Take another axis, or another step of a loop."""
    if not isinstance(node, ast.Constant) or type(node.value) is not int:
        return
    parent = scope.parents.get(node)
    if isinstance(parent, ast.keyword):
        parent = scope.parents.get(parent) if parent.arg in ("axis", "dim") else None
    kinds: tuple[str, ...] = ("position_shifted",)
    if _called(parent) in _REDUCTIONS | _OF_AXES or isinstance(parent, ast.Subscript):
        kinds = ("wrong_axis",) if _called(parent) in _REDUCTIONS else _SIZES
    elif _called(parent) in ("range", "static_range"):
        kinds = ("block_left_out", "last_left_out")
    elif not isinstance(parent, ast.BinOp):
        return
    for value in (node.value - 1, node.value + 1):
        if value >= 0:
            yield scope.edit(node, str(value), kinds)


def _reductions(scope: _Scope, node: ast.AST) -> Iterator[Edit]:
    """Reduce along one axis in place of all."""
    if isinstance(node, ast.Call) and _called(node) in _REDUCTIONS and len(node.args) == 1 and not node.keywords:
        for axis in (0, 1):
            yield scope.edit(node, f"{scope.text(node)[:-1]}, axis={axis})", ("wrong_axis",), _OFTEN)


def _masks(scope: _Scope, node: ast.AST) -> Iterator[Edit]:
    """Mask a load or a store as another one is masked, and take another value for masked lanes."""
    if not isinstance(node, ast.Call) or _called(node) not in ("load", "store"):
        return
    own, other, text = _keyword(node, "mask"), _keyword(node, "other"), scope.text(node)
    for mask in scope.masks:
        if own is None:
            yield scope.edit(node, f"{text[:-1]}, mask={mask})", _TOO_WIDE, _OFTEN)
        else:
            yield scope.edit(own, mask, (*_TOO_WIDE, *_SIZES))
            yield scope.edit(own, f"({scope.text(own)}) & ({mask})", _TOO_WIDE)
    if _called(node) == "load" and own is not None:
        for value in _PADDING:
            replaced, after = (node, f"{text[:-1]}, other={value})") if other is None else (other, value)
            yield scope.edit(replaced, after, ("padding_counted",))


def _order(scope: _Scope, node: ast.AST) -> Iterator[Edit]:
    """Exchange neighbours: arguments of a launch, elements of a grid or of a shape, results."""
    if isinstance(node, ast.Call) and not scope.in_kernel:
        yield from _exchanged(scope, node.args, _TENSORS)
    if isinstance(node, ast.Tuple):
        yield from _exchanged(scope, node.elts, _SIZES if scope.in_kernel else (*_SIZES, *_TENSORS))


def _exchanged(scope: _Scope, items: Sequence[ast.expr], kinds: tuple[str, ...]) -> Iterator[Edit]:
    for one, other in pairwise(items):
        if isinstance(one, ast.Starred) or isinstance(other, ast.Starred):
            continue
        (start, first), (second, end) = scope.span(one), scope.span(other)
        parts = scope.source[second:end], scope.source[first:second], scope.source[start:first]
        before, after = scope.source[start:end].decode(), b"".join(parts).decode()
        yield Edit(one.lineno, before, after, kinds, _SOMETIMES, start, end, scope.in_kernel)


def _factors(scope: _Scope, node: ast.AST) -> Iterator[Edit]:
    """Multiply the number of a program, or an index, by a block or by a stride."""
    parent = scope.parents.get(node)
    if not scope.in_kernel or not isinstance(parent, ast.BinOp) or not isinstance(parent.op, ast.Add):
        return
    inside = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    if not isinstance(node, ast.Call | ast.Name | ast.Subscript) or any(one.endswith("ptr") for one in inside):
        return
    for name in scope.arguments:
        is_factor = scope.is_number(name) and (name.isupper() or "stride" in name.lower())
        if is_factor and name not in inside and scope.values.get(name) != 1:
            yield scope.edit(node, f"({scope.text(node)}) * {name}", _ADDRESSES, _RARELY)


def _allocations(scope: _Scope, node: ast.AST) -> Iterator[Edit]:
    """Clear memory, or keep intermediate results in float32."""
    if scope.in_kernel or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return
    if cleared := _CLEARED.get(node.func.attr):
        rest = scope.text(node)[len(scope.text(node.func)) :]
        yield scope.edit(node, f"{scope.text(node.func.value)}.{cleared}{rest}", ("not_cleared",))
    if node.func.attr in {*_CLEARED, *_CLEARED.values()} and (dtype := _keyword(node, "dtype")) is not None:
        yield scope.edit(dtype, "torch.float32", _DTYPES)


_FINDERS: tuple[Callable[[_Scope, ast.AST], Iterator[Edit]], ...] = (
    _names,
    _bounds,
    _divisions,
    _operands,
    _numbers,
    _reductions,
    _masks,
    _order,
    _factors,
    _allocations,
)
