"""Give unusual answers where Triton leaves them open: the order of some blocks, and some elements.

tl.cat, tl.view and tl.reshape with can_reorder=True may reorder elements; here they reverse them. tl.gather reads any
number at an index outside its block, as loads do in masked lanes without `other`; here it has all bits set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.interpreter.groups import Array


def reorder_and_gather() -> None:
    """Patch this process's interpreter. Call it before the submission is loaded."""
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    reshape, cat = InterpreterBuilder.create_reshape, InterpreterBuilder.create_cat

    def create_reshape(self: Any, arg: Any, shape: Any, allow_reorder: bool) -> Any:
        made = reshape(self, arg, shape, allow_reorder)
        if allow_reorder and moves_elements(arg.data.shape, shape):
            return TensorHandle(backwards(made.data), made.dtype)
        return made

    def create_cat(self: Any, lhs: Any, rhs: Any) -> Any:
        made = cat(self, lhs, rhs)
        return TensorHandle(backwards(made.data), made.dtype)

    def create_gather(_builder: Any, src: Any, indices: Any, axis: int) -> Any:
        return TensorHandle(gathered(src.data, indices.data, axis), src.dtype.scalar)

    InterpreterBuilder.create_reshape = create_reshape
    InterpreterBuilder.create_cat = create_cat
    InterpreterBuilder.create_gather = create_gather


def moves_elements(before: Sequence[int], after: Sequence[int]) -> bool:
    """Return whether a new shape differs by more than axes of length 1, which move no element."""
    return [one for one in before if one != 1] != [one for one in after if one != 1]


def backwards(block: Array, first_axis: int = 0) -> Array:
    """Return a block with its elements in the opposite order, from `first_axis` on."""
    return np.flip(block, tuple(range(first_axis, block.ndim)))


def gathered(block: Array, indices: Array, axis: int) -> Array:
    """Return the elements at indices along an axis; outside the block, NaN or the number with all bits set."""
    inside = (indices >= 0) & (indices < block.shape[axis])
    found = np.take_along_axis(block, np.where(inside, indices, 0), axis=axis)
    return found if inside.all() else np.where(inside, found, undefined(block.dtype))


def undefined(dtype: np.dtype[Any]) -> Any:
    """Return the number that stands for an undefined one: all its bits are set. It is NaN in every float, else -1."""
    return np.True_ if dtype == np.bool_ else np.frombuffer(b"\xff" * dtype.itemsize, dtype)[0]
