"""Multiply as a GPU does where Triton makes a dot of a product and a sum.

Triton's compiler replaces tl.sum(a[:, :, None] * b[None, :, :], axis=1) in float32 by a tl.dot of a and b, and allows
TF32 for it, as the TTIR of Triton 3.7 shows. The interpreter multiplies in float32, and hides that 13 bits are lost.

The same in another order stays a sum: b before a, another axis, a reshape in place of [:, :, None], an operation
between the product and the sum. So does a tile with fewer than 16 rows or columns. A combine function of the
submission that only adds is replaced as well; here its numbers are not cut.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from grader.interpreter.arithmetic.numerics import to_tf32

Array = NDArray[Any]

# The compiler leaves narrower tiles alone.
_LEAST_LENGTH = 16


def multiply_sums_as_dots() -> None:
    """Patch this process's interpreter. Call it after contraction, and before reductions leave the programs' axis."""
    from triton.runtime.interpreter import InterpreterBuilder, ReduceOps, TensorHandle

    TensorHandle.new_axis = TensorHandle.factors = None
    follow_new_axes(InterpreterBuilder)
    multiply, total = InterpreterBuilder.create_fmul, ReduceOps.sum

    def create_fmul(self: Any, lhs: Any, rhs: Any) -> Any:
        result = multiply(self, lhs, rhs)
        if lhs.new_axis == 2 and rhs.new_axis == 0 and str(lhs.dtype.scalar.name) == "fp32":
            result.factors = lhs.data, rhs.data
        return result

    def sum_or_dot(self: Any, input: Any) -> Any:
        factors, data = input.handle.factors, input.handle.data
        if factors is None or self.axis is None or len(input.shape) != 3:
            return total(self, input)
        # Axes are counted from the end: programs that run together have an axis before those of the block.
        if data.ndim - self.axis != 2 or min(data.shape[-3], data.shape[-1]) < _LEAST_LENGTH:
            return total(self, input)
        product = _dot(*factors).reshape(data.any(axis=self.axis, keepdims=self.keep_dims).shape)
        return self.to_tensor(product, input.dtype)

    InterpreterBuilder.create_fmul, ReduceOps.sum = create_fmul, sum_or_dot


def follow_new_axes(builder: Any) -> None:
    """Let the values of a builder remember the axis that expand_dims gave them, through a broadcast."""
    expand, broadcast = builder.create_expand_dims, builder.create_broadcast

    def create_expand_dims(self: Any, arg: Any, axis: int) -> Any:
        result = expand(self, arg, axis)
        result.new_axis = axis
        return result

    def create_broadcast(self: Any, arg: Any, shape: Any) -> Any:
        result = broadcast(self, arg, shape)
        result.new_axis = arg.new_axis
        return result

    builder.create_expand_dims, builder.create_broadcast = create_expand_dims, create_broadcast


def _dot(left: Array, right: Array) -> Array:
    """Return the product of [..., M, K, N] and [..., M, K, N], each the same along N or M, as tensor cores make it."""
    rows, columns = to_tf32(left[..., 0]), to_tf32(right[..., 0, :, :])
    with np.errstate(over="ignore"):
        return np.asarray((rows.astype(np.float64) @ columns.astype(np.float64)).astype(np.float32))
