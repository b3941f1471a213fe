"""Give up a call that has too many programs or turns of a loop for the interpreter, before the call's time limit.

A GPU runs such a call in a moment, so the kernel is not at fault. A program that never ends is at fault: it runs into
the time limit, as does a loop so long that a GPU would be slow too, and a call of far more programs or turns than its
tensors have elements: no work needs them. A launch in which nearly all programs write nothing is given up much earlier:
its grid is too large.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sized
from math import inf, prod
from typing import Any

from grader.interpreter.beyond import NeedsGpu

# With fewer programs, a slow call is due to the programs themselves.
MANY = 200
# The same for turns of loops; and a loop of more turns takes a GPU seconds.
MANY_TURNS = 2000
_MOST_TURNS = 1 << 20
# The most programs, and turns of loops, that some work needs for an element of its tensors.
_MOST_PER_ELEMENT = 4
# The seconds for a launch in which only one program of so many writes something. Where sequences are short, one of up
# to 32 splits writes: the others find no slots and return. A grid that no block divides has at least 64 for one.
_IDLE_S = 1.0
_ONE_OF = 32


class TooSlow(NeedsGpu):
    """Raised when the interpreter gives up; the message says how far it came."""


class Patience:
    """A counter of the programs of a call. clock: returns the CPU seconds of this process."""

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        self._clock = clock
        self._ends_s = inf
        self._most = inf
        self._begun = 0
        self._turns = 0
        self._given_s = 0.0
        self._of_launch = 0
        self._idle_ends_s = inf
        self._writers: Sized = ()

    def begin(self, seconds: float, elements: float = inf) -> None:
        """Start over with a call that may take so many seconds; 0: no limit. elements: of its inputs and outputs."""
        self._most = _MOST_PER_ELEMENT * elements
        self._begun, self._turns, self._given_s = 0, 0, seconds
        self._ends_s = self._clock() + seconds if seconds else inf
        self._idle_ends_s = inf

    def begin_launch(self, writers: Sized) -> None:
        """Begin a launch of the call. writers: grows with each of its programs that writes something."""
        self._of_launch, self._writers = 0, writers
        self._idle_ends_s = self._clock() + _IDLE_S if self._given_s else inf

    def program(self, place: tuple[int, ...], grid: tuple[int, ...]) -> None:
        """Note that a program of a grid begins. Raises TooSlow if many ran and the time is up."""
        self._begun += 1
        self._of_launch += 1
        if self._begun <= MANY or max(self._begun, prod(grid)) > self._most:
            return
        now_s = self._clock()
        if now_s > self._ends_s:
            words = f"program {place} of a grid of {prod(grid):,} began after {self._given_s:g} s"
            raise TooSlow(f"so many programs: {words}, which is all that the interpreter has for a call")
        if now_s > self._idle_ends_s and self._of_launch > max(MANY, _ONE_OF * len(self._writers)):
            before = self._of_launch - 1
            idle = f"{before - len(self._writers):,} of the first {before:,} in a grid of {prod(grid):,} write nothing"
            advice = "where they lie past the end, divide the grid by the block, as triton.cdiv(n, BLOCK) does"
            raise TooSlow(f"so many programs: {idle}; {advice}")

    def turn(self, number: int, of: int) -> None:
        """Note that a turn of a loop begins. Raises TooSlow if many turned, the time is up and the loop is not long."""
        self._turns += 1
        if max(self._turns, of) > self._most:
            return
        if self._turns > MANY_TURNS and of <= _MOST_TURNS and self._clock() > self._ends_s:
            what, words = "turns of a loop", f"turn {number:,} of a loop of {of:,}"
            if self._begun > max(MANY, of):
                what, words = "programs with loops", f"program {self._begun:,}, in a loop of {of:,},"
            given = f"began after {self._given_s:g} s, which is all that the interpreter has for a call"
            raise TooSlow(f"so many {what}: {words} {given}")


PATIENCE = Patience()


def install() -> None:
    """Patch this process's interpreter to report every program to PATIENCE."""
    from triton.runtime.interpreter import InterpreterBuilder as Builder

    begin = Builder.set_grid_idx

    def set_grid_idx(self: Any, x: Any, y: Any, z: Any) -> None:
        begin(self, x, y, z)
        PATIENCE.program(tuple(self.grid_idx), tuple(self.grid_dim))

    Builder.set_grid_idx = set_grid_idx
