"""Run the programs of a launch in another order than the interpreter's, and let them take turns where one waits."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.random import Generator

from grader.protocol.observations import Pause
from grader.protocol.requests import Interrupted

# The most programs that have begun and not ended, and the Python frames that one of them may need.
_MOST_RUNNING = 64
_FRAMES = 200
# A program waits if it makes so many more atomics and volatile loads in a line than any program that does not wait.
_TURN = 16
# The share of interrupted programs for "most", and their number for "few".
_OFTEN, _FEW = 7 / 8, 2
# The shares of them that are interrupted at the first pass of a line, and at the last; the others at any pass.
_AT_FIRST, _AT_LAST = 1 / 2, 1 / 4


class BackwardsKernel:
    """Stands for a kernel while its programs run in another order: the last one first, each to its end.

    A GPU runs programs in any order. A kernel that is right in both orders does not depend on which program comes
    first. A program that waits is interrupted: another one, drawn at random among those that have not begun, runs to
    its end. So no kernel can rely on certain programs coming first.

    usual: the lines with atomics and volatile loads, as programs pass them without waiting. interrupted: programs that
    do not wait are interrupted too, once, behind one of these lines. Each line that all programs pass has the same
    chance: a loop of harmless loads hides no other line.
    """

    def __init__(
        self,
        kernel: Callable[..., Any],
        builder: Any,
        chance: Generator,
        usual: Sequence[Pause],
        interrupted: Interrupted = "none",
    ) -> None:
        self.__name__ = kernel.__name__
        self.__signature__ = inspect.signature(kernel)
        self._kernel, self._builder, self._chance = kernel, builder, chance
        self._usual = {one.line: one.most for one in usual}
        self._lines, self._weights = [one.line for one in usual], np.array([one.programs for one in usual], float)
        self._interrupted: Interrupted = interrupted if usual else "none"
        self._begun: set[int] = set()
        # The number of programs that have begun and not ended: the first ones wait for the last one.
        self._running = 0
        # The programs that had not begun when the first one waited, in random order.
        self._drawn: list[int] | None = None
        self._arguments: dict[str, Any] = {}
        # The running program's atomics and volatile loads by line, and the place of its interruption.
        self._passes = Counter[int]()
        self._pause: tuple[int, int] | None = None

    def __call__(self, **arguments: Any) -> None:
        """Run the program at the opposite place of the grid, unless it ran meanwhile."""
        grid = self._builder.grid_dim
        number = self._total - 1 - int(np.ravel_multi_index(self._builder.grid_idx, grid))
        self._arguments = arguments
        if number in self._begun:
            return
        self._builder.other_programs = self
        try:
            self._run(number)
        finally:
            self._builder.other_programs = None

    @property
    def are_open(self) -> bool:
        """Some programs have not begun, or wait for this one."""
        return self._running > 1 or len(self._begun) < self._total

    def take_turns(self, line: int) -> bool:
        """Note an atomic or a volatile load in a line; return whether another program ran because of it."""
        self._passes[line] += 1
        beyond = self._passes[line] - self._usual.get(line, 0)
        waits = beyond > 0 and beyond % _TURN == 0
        if not waits and (line, self._passes[line]) != self._pause:
            return False
        if self._drawn is None:
            self._drawn = [number for number in range(self._total) if number not in self._begun]
            self._chance.shuffle(self._drawn)
        while self._drawn and self._drawn[-1] in self._begun:
            self._drawn.pop()
        if not self._drawn or self._running >= _MOST_RUNNING:
            return False
        self._run(self._drawn.pop())
        return True

    def _draw_pause(self) -> tuple[int, int] | None:
        """Return the line, and the pass of it, behind which a program is interrupted; None: nowhere."""
        if self._interrupted == "none":
            return None
        share = _OFTEN if self._interrupted == "most" else _FEW / self._total
        if self._chance.random() >= share:
            return None
        line = int(self._chance.choice(self._lines, p=self._weights / self._weights.sum()))
        drawn, most = self._chance.random(), self._usual[line]
        if drawn < _AT_FIRST:
            return line, 1
        return line, most if drawn < _AT_FIRST + _AT_LAST else int(self._chance.integers(1, most + 1))

    def _run(self, number: int) -> None:
        place, limit = self._builder.grid_idx, sys.getrecursionlimit()
        passes, self._passes = self._passes, Counter[int]()
        pause, self._pause = self._pause, self._draw_pause()
        self._begun.add(number)
        self._running += 1
        self._builder.grid_idx = tuple(map(int, np.unravel_index(number, self._builder.grid_dim)))
        sys.setrecursionlimit(limit + _FRAMES)
        try:
            self._kernel(**self._arguments)
        finally:
            sys.setrecursionlimit(limit)
            self._builder.grid_idx, self._passes, self._pause = place, passes, pause
            self._running -= 1

    @property
    def _total(self) -> int:
        return prod(self._builder.grid_dim)
