"""Run reductions and scans of the interpreter as a GPU does: along a tree, whole blocks at a time.

The interpreter calls the submission's combine function once per element, in order: a sum of many numbers is then less
exact than on any GPU, and takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grader.interpreter.arithmetic.hidden_nan import HIDDEN_NAN, largest_along, smallest_along
from grader.interpreter.arithmetic.numerics import BFLOAT16, from_bfloat16, refuse_float8, to_bfloat16
from grader.interpreter.groups import go_alone

Array = NDArray[Any]
Combine = Callable[[Sequence[Array], Sequence[Array]], list[Array]]


def correct_reductions() -> None:
    """Patch this process's interpreter. Call it before the submission is loaded.

    The combine function runs in the element type, along any axis; numbers win over NaN. Compiled tl.sum of float16 and
    bfloat16 adds in that type (add.f16, add.bf16) along a tree, and so does this. tl.max, tl.min, tl.argmax, tl.cumsum
    and tl.cumprod convert bfloat16 to float32 themselves before 3.9; since then the last three compute in bfloat16.
    """
    from triton.runtime.interpreter import ReduceOps, ReduceScanOpInterface, ScanOps

    apply, total = ReduceScanOpInterface.apply, ReduceOps.sum
    one_by_one = ReduceOps.generic_reduce, ScanOps.generic_scan

    def apply_along(self: Any, input: Any) -> Any:
        if not isinstance(input, tuple):
            return self.apply((input,))[0]
        refuse_float8({one.dtype.name for one in input})
        if self.axis is not None and self.axis < 0:
            self.axis += len(input[0].shape)
        return apply(self, input)

    def sum_in_a_tree(self: Any, input: Any) -> Any:
        if input.dtype.name not in {BFLOAT16, "fp16"}:
            return total(self, _in_one_layout(self, input))
        add = _add_bfloat16 if input.dtype.name == BFLOAT16 else np.add
        values = input.handle.data
        shape = values.any(axis=self.axis, keepdims=self.keep_dims).shape
        axis, values = (0, values.ravel()) if self.axis is None else (self.axis, values)
        while values.shape[axis] > 1:
            values = add(*np.split(values, 2, axis))
        return self.to_tensor(values.reshape(shape), input.dtype)

    def reduce_in_a_tree(self: Any, input: Any) -> Any:
        values = [one.handle.data for one in input]
        shape = values[0].any(axis=self.axis, keepdims=self.keep_dims).shape
        axis = 0 if self.axis is None else self.axis
        values = [one.ravel() for one in values] if self.axis is None else values
        try:
            combine = _combining(self, input)
            while values[0].shape[axis] > 1:
                values = combine(*(_every_other(values, axis, start) for start in (0, 1)))
        except _NotBlockwise:
            go_alone()
            return one_by_one[0](self, input)
        return [self.to_tensor(one.reshape(shape), like.dtype) for one, like in zip(values, input, strict=True)]

    def scan_in_steps(self: Any, input: Any) -> Any:
        values, axis = [one.handle.data for one in input], self.axis
        try:
            combine, step = _combining(self, input), 1
            length = values[0].shape[axis]
            places = np.arange(length).reshape([-1 if i == axis else 1 for i in range(values[0].ndim)])
            while step < length:
                # A block keeps its length; values that np.roll wrapped around are dropped.
                combined = combine([np.roll(one, step, axis) for one in values], values)
                values = [np.where(places < step, *pair) for pair in zip(values, combined, strict=True)]
                step *= 2
        except _NotBlockwise:
            go_alone()
            return one_by_one[1](self, input)
        return [self.to_tensor(one, like.dtype) for one, like in zip(values, input, strict=True)]

    ReduceScanOpInterface.apply = apply_along
    ScanOps.cumsum, ScanOps.cumprod = (_in_steps(one, scan_in_steps) for one in (ScanOps.cumsum, ScanOps.cumprod))
    ReduceOps.sum, ReduceOps.min_max = sum_in_a_tree, _of_numbers(ReduceOps.min_max)
    ReduceOps.generic_reduce, ScanOps.generic_scan = reduce_in_a_tree, scan_in_steps


def _of_numbers(extreme: Callable[..., Any]) -> Callable[..., Any]:
    """Return min_max for bfloat16 as well, without NumPy's warning, or its error, for all-NaN input."""
    from triton.runtime.interpreter import tl

    quiet = {
        np.nanmax: largest_along,
        np.nanmin: smallest_along,
        np.nanargmax: place_of_largest,
        np.nanargmin: place_of_smallest,
    }

    def min_max(self: Any, input: Any, val_reduce_op: Any, idx_reduce_op: Any = None) -> Any:
        operations = quiet.get(val_reduce_op, val_reduce_op), quiet.get(idx_reduce_op, idx_reduce_op)
        one = input[0] if isinstance(input, tuple) else input
        if one.dtype.name != BFLOAT16:
            return extreme(self, one, *operations)
        found = extreme(self, _holding(one, from_bfloat16(one.handle.data), tl.float32), *operations)
        value, *place = found if isinstance(found, tuple) else (found,)
        value = _holding(value, to_bfloat16(value.handle.data), tl.bfloat16)
        return (value, *place) if place else value

    return min_max


def _in_steps(scan: Callable[..., Any], in_steps: Callable[..., Any]) -> Callable[..., Any]:
    """Return a scan that computes numbers with a fraction in steps of the combine function.

    NumPy adds one number after another, which is less exact for many numbers than on any GPU.
    """

    def run(self: Any, input: Any) -> Any:
        return in_steps(self, (input,)) if input.dtype.is_floating() else scan(self, input)

    return run


def place_of_largest(numbers: Array, axis: int | None = None, keepdims: bool = False) -> Array:
    """Return the place of the largest number: the first of equal ones, but the last if all are NaN."""
    last = (numbers.size if axis is None else numbers.shape[axis]) - 1
    if numbers.dtype.kind != "f":
        return np.asarray(np.argmax(numbers, axis=axis, keepdims=keepdims))
    HIDDEN_NAN.note(numbers)
    places = np.argmax(np.where(np.isnan(numbers), -np.inf, numbers), axis=axis, keepdims=keepdims)
    return np.where(np.isnan(numbers).all(axis=axis, keepdims=keepdims), last, places)


def place_of_smallest(numbers: Array, axis: int | None = None, keepdims: bool = False) -> Array:
    """Return the place of the smallest number, as place_of_largest does."""
    if numbers.dtype.kind != "f":
        return np.asarray(np.argmin(numbers, axis=axis, keepdims=keepdims))
    return place_of_largest(-numbers, axis, keepdims)


def _in_one_layout(operation: Any, input: Any) -> Any:
    """Return the input with the elements that are added side by side in memory.

    NumPy adds in an order that depends on how an array lies there: equal calls would differ in the last bit.
    """
    values = input.handle.data
    if operation.axis is None or operation.axis == values.ndim - 1 or values.dtype.kind != "f":
        ordered = np.ascontiguousarray(values)
    else:
        ordered = np.moveaxis(np.ascontiguousarray(np.moveaxis(values, operation.axis, -1)), -1, operation.axis)
    return input if ordered is values else _holding(input, ordered, input.dtype)


def _holding(like: Any, data: Array, kind: Any) -> Any:
    """Return a tensor of that element type in the shape of another."""
    from triton.runtime.interpreter import TensorHandle, tl

    return tl.tensor(TensorHandle(data, kind), tl.block_type(kind, like.type.shape) if like.type.is_block() else kind)


class _NotBlockwise(Exception):
    """A combine function takes no blocks: it asks for the truth value of a number."""


def _every_other(values: Sequence[Array], axis: int, start: int) -> list[Array]:
    """Return every other element, so that neighbours are combined and operands keep their order."""
    return [one.take(range(start, one.shape[axis], 2), axis) for one in values]


def _combining(operation: Any, input: Any) -> Combine:
    """Return the combine function on arrays, in the types of the input.

    A result must have its operands' type: any other does not compile, and would be stored wrongly.
    """
    from triton.runtime.interpreter import tl

    given = operation.combine_fn.fn

    def checked(*operands: Any) -> Any:
        result = given(*operands)
        for got, like in zip(result if isinstance(result, tuple) else (result,), operands, strict=False):
            if getattr(got, "dtype", like.dtype) != like.dtype:
                raise TypeError(f"a combine function must return {like.dtype} as it is given, got {got.dtype}")
        return result

    # The check applies element by element, too.
    operation.combine_fn = SimpleNamespace(fn=checked)

    def combine(left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
        operands = [
            operation.to_tensor(value, like.dtype)
            for values in (left, right)
            for value, like in zip(values, input, strict=True)
        ]
        try:
            result = checked(*operands)
        except TypeError as refused:
            if "only a scalar is true or false" in str(refused):
                raise _NotBlockwise from refused
            raise
        found = result if isinstance(result, tuple) else (result,)
        arrays = [one.handle.data if isinstance(one, tl.tensor) else np.asarray(one) for one in found]
        return [
            np.broadcast_to(one, like.shape).astype(like.dtype, copy=False)
            for one, like in zip(arrays, left, strict=True)
        ]

    return combine


def _add_bfloat16(left: Array, right: Array) -> Array:
    return to_bfloat16(from_bfloat16(left) + from_bfloat16(right))
