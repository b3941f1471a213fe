"""Note that an operation hides NaN: a maximum or minimum skips it, a comparison is false, its bits are a number.

Undefined lanes and unwritten memory hold NaN here, so that they reach the result. Such an operation removes them, while
on a GPU they hold any number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class HiddenNan:
    """Tells whether an operation of the present call got NaN and gave a number or a truth value."""

    def __init__(self) -> None:
        self.happened = False

    def begin(self) -> None:
        """Start over with a call."""
        self.happened = False

    def note(self, *operands: Array) -> None:
        """Note the operands of an operation that hides NaN."""
        if not self.happened:
            self.happened = any(one.dtype.kind == "f" and bool(np.isnan(one).any()) for one in operands)


HIDDEN_NAN = HiddenNan()


def largest(left: Array, right: Array) -> Array:
    """Return the larger of two numbers, element by element, and the other one for a NaN."""
    HIDDEN_NAN.note(left, right)
    return np.asarray(np.fmax(left, right))


def smallest(left: Array, right: Array) -> Array:
    """Return the smaller of two numbers, as `largest` does."""
    HIDDEN_NAN.note(left, right)
    return np.asarray(np.fmin(left, right))


def largest_along(numbers: Array, axis: int | None = None, keepdims: bool = False) -> Array:
    """Return the largest number along an axis; NaN where there is no number."""
    HIDDEN_NAN.note(numbers)
    along: Any = np.fmax.reduce
    return np.asarray(along(numbers, axis=axis, keepdims=keepdims))


def smallest_along(numbers: Array, axis: int | None = None, keepdims: bool = False) -> Array:
    """Return the smallest number along an axis, as `largest_along` does."""
    HIDDEN_NAN.note(numbers)
    along: Any = np.fmin.reduce
    return np.asarray(along(numbers, axis=axis, keepdims=keepdims))
