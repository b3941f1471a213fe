"""Gives up a call that has too many programs for the interpreter, before its time is up.

A GPU runs such a call in a moment, so it is not the kernel's fault. A program that never ends is: it runs into the
limit of the call.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf, prod
from typing import Any

from grader.interpreter.beyond import NeedsGpu

# A call of fewer programs is slow by what each of them does.
MANY = 200


class TooSlow(NeedsGpu):
    """Raised where the interpreter gives up. Its message says how far it came."""


class Patience:
    """Counts the programs of a call. clock: the seconds that this process has worked."""

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        self._clock = clock
        self._ends_s = inf
        self._begun = 0
        self._given_s = 0.0

    def begin(self, seconds: float) -> None:
        """Start over with a call that may take so long; 0: any time."""
        self._begun, self._given_s = 0, seconds
        self._ends_s = self._clock() + seconds if seconds else inf

    def program(self, place: tuple[int, ...], grid: tuple[int, ...]) -> None:
        """Hear that a program of a grid begins. Raises TooSlow where many ran and the time is up."""
        self._begun += 1
        if self._begun > MANY and self._clock() > self._ends_s:
            words = f"program {place} of a grid of {prod(grid):,} began after {self._given_s:g} s"
            raise TooSlow(f"so many programs: {words}, which is all that the interpreter has for a call")


PATIENCE = Patience()


def install() -> None:
    """Patch this process's interpreter."""
    from triton.runtime.interpreter import InterpreterBuilder as Builder

    begin = Builder.set_grid_idx

    def set_grid_idx(self: Any, x: Any, y: Any, z: Any) -> None:
        begin(self, x, y, z)
        PATIENCE.program(tuple(self.grid_idx), tuple(self.grid_dim))

    Builder.set_grid_idx = set_grid_idx
