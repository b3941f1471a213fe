"""Decides what masked lanes hold in loads without `other`, and notes the lines of such loads.

On a GPU these lanes are undefined. Here they hold a pattern of ones, which is NaN in every float. If another value in
them changes a result, then they reach it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from grader.interpreter.memory import running_line
from grader.protocol.messages import Filling

_MOST_LINES = 16
# Infinities of bfloat16, which the interpreter holds as whole numbers of 16 bits.
_BFLOAT16 = {"0": 0, "-inf": 0xFF80, "inf": 0x7F80}


class Undefined:
    """The undefined lanes of one call."""

    def __init__(self) -> None:
        self._filled: frozenset[int] = frozenset()
        self._filling: Filling = "0"
        self._lines: dict[int, None] = {}

    def begin(self, filled: Collection[int], filling: Filling) -> None:
        """Start over with a call. filled: the lines whose undefined lanes hold `filling` instead of ones."""
        self._filled, self._filling = frozenset(filled), filling
        self._lines.clear()

    @property
    def lines(self) -> tuple[int, ...]:
        """Return the lines of the loads that left lanes undefined, in the order of the first load of each."""
        return tuple(self._lines)

    def lanes(self, mask: npt.NDArray[np.generic], dtype: np.dtype[Any], kind: Any) -> npt.NDArray[Any]:
        """Return what a load without `other` puts into masked lanes, one value for each lane.

        dtype: of the values. kind: their type in Triton.
        """
        value = np.frombuffer(b"\xff" * dtype.itemsize, dtype)[0]
        if not mask.all():
            line = running_line()[0]
            if len(self._lines) < _MOST_LINES:
                self._lines[line] = None
            if line in self._filled:
                value = _value(self._filling, dtype, str(kind), value)
        return np.full(mask.shape, value, dtype)


UNDEFINED = Undefined()


def _value(filling: Filling, dtype: np.dtype[Any], kind: str, otherwise: Any) -> Any:
    """Return a filling in a dtype: of integers, the smallest and the largest number; `otherwise` where it has none."""
    if filling == "0":
        return dtype.type(0)
    if dtype.kind == "f":
        return dtype.type(filling)
    if kind == "bf16":
        return dtype.type(_BFLOAT16[filling])
    if kind.startswith(("int", "uint")):
        limits = np.iinfo(dtype)
        return limits.min if filling == "-inf" else limits.max
    return otherwise
