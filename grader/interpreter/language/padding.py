"""Decide what the masked lanes of a load hold, and note the lines of such loads.

They hold the value of `other`. Without it they are undefined on a GPU. Here they then hold a pattern of ones: NaN in
every float, and -1 in a whole number. A replay may put another value into them: a result that changes depends on them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from grader.interpreter.arithmetic.unspecified import undefined
from grader.interpreter.places import running_line
from grader.protocol.requests import Filling

_MOST_LINES = 16
# Numbers of bfloat16, which the interpreter holds as whole numbers of 16 bits.
_BFLOAT16 = {"-inf": 0xFF80, "inf": 0x7F80, "1.337": 0x3FAB}

# The whole number in place of a fraction: flags and counters hold it most often.
SMALL_AND_ODD = 1

Values = npt.NDArray[Any]


class Padding:
    """The masked lanes of one call.

    undefined_whole: some load of whole numbers masked lanes without `other`.
    """

    def __init__(self) -> None:
        self._filled: frozenset[int] = frozenset()
        self._filling: Filling = "0"
        self._undefined: dict[int, None] = {}
        self.undefined_whole = False
        self._padded: dict[int, None] = {}

    def begin(self, filled: Collection[int], filling: Filling) -> None:
        """Start over with a call. filled: the lines whose masked lanes hold `filling` instead of their own value."""
        self._filled, self._filling = frozenset(filled), filling
        self._undefined.clear()
        self.undefined_whole = False
        self._padded.clear()

    @property
    def undefined(self) -> tuple[int, ...]:
        """Return the lines of the loads that masked lanes without `other`, in the order of their first loads."""
        return tuple(self._undefined)

    @property
    def padded(self) -> tuple[int, ...]:
        """Return the lines of the loads that masked lanes with `other`."""
        return tuple(self._padded)

    def lanes(self, mask: Values, dtype: np.dtype[Any], kind: Any, other: Values | None) -> Values:
        """Return what a load puts into masked lanes, one value for each lane; `other` where it stays.

        dtype: of the values. kind: their type in Triton.
        """
        if not mask.all():
            line = running_line()[0]
            lines = self._undefined if other is None else self._padded
            if len(lines) < _MOST_LINES:
                lines[line] = None
            self.undefined_whole |= other is None and str(kind).startswith(("int", "uint"))
            if line in self._filled and (value := _value(self._filling, dtype, str(kind))) is not None:
                return np.full(mask.shape, value, dtype)
        return np.full(mask.shape, undefined(dtype), dtype) if other is None else other


PADDING = Padding()


def _value(filling: Filling, dtype: np.dtype[Any], kind: str) -> Any:
    """Return a filling in a dtype; of integers, the smallest, the largest or a small one. None where it has none."""
    if filling == "0":
        return dtype.type(0)
    if dtype.kind == "f":
        return dtype.type(filling)
    if kind == "bf16":
        return dtype.type(_BFLOAT16[filling])
    if kind.startswith(("int", "uint")):
        limits = np.iinfo(dtype)
        return {"-inf": limits.min, "inf": limits.max}.get(filling, SMALL_AND_ODD)
    return None
