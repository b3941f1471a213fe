"""Runs the programs of a launch in another order than the interpreter's, and lets them take turns where one waits."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.random import Generator

# The most programs that have begun and not ended, and the frames of Python's that one of them may need.
_MOST_RUNNING = 64
_FRAMES = 200
# Another program runs after so many atomics and volatile loads of one.
_TURN = 16
# An interrupted program may be left behind each of them, as chance decides: behind the first atomics of a kind every
# other time, then less often; behind volatile loads seldom, for each time takes one of the programs that are left.
_OFTEN, _LESS_OFTEN, _SELDOM = 1 / 2, 2.0, 1 / 8


class BackwardsKernel:
    """Stands for a kernel while its programs run in another order: the last one first, each to its end.

    A GPU runs programs in any order. What is right in both orders alone does not depend on a program having come first.
    A program that may wait, as its many atomics and volatile loads tell, is interrupted: another one, which has not
    begun, runs to its end. Which one, chance decides, so that no kernel can wait for just those that come first.

    interrupted: programs that do not wait are interrupted as well, behind some of their atomics.
    """

    def __init__(
        self, kernel: Callable[..., Any], builder: Any, chance: Generator, *, interrupted: bool = False
    ) -> None:
        self.__name__ = kernel.__name__
        self.__signature__ = inspect.signature(kernel)
        self._kernel, self._builder, self._chance = kernel, builder, chance
        self._interrupted = interrupted
        self._begun: set[int] = set()
        # Programs that have begun and not ended: the first ones wait for what the last one does.
        self._running = 0
        # Those that had not begun when the first one waited, in the order of chance.
        self._drawn: list[int] | None = None
        self._arguments: dict[str, Any] = {}
        # The atomics and volatile loads of the program that runs, and those of each kind.
        self._heard = 0
        self._of_kind = Counter[str]()

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

    def take_turns(self, what: str) -> bool:
        """Hear of an atomic or a volatile load; return whether another program ran because of it. what: its kind."""
        self._heard += 1
        self._of_kind[what] += 1
        most = _SELDOM if what == "load" else _OFTEN
        early = self._interrupted and self._chance.random() < min(most, _LESS_OFTEN / self._of_kind[what])
        if self._heard % _TURN and not early:
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

    def _run(self, number: int) -> None:
        place, limit = self._builder.grid_idx, sys.getrecursionlimit()
        heard, self._heard = self._heard, 0
        of_kind, self._of_kind = self._of_kind, Counter[str]()
        self._begun.add(number)
        self._running += 1
        self._builder.grid_idx = tuple(map(int, np.unravel_index(number, self._builder.grid_dim)))
        sys.setrecursionlimit(limit + _FRAMES)
        try:
            self._kernel(**self._arguments)
        finally:
            sys.setrecursionlimit(limit)
            self._builder.grid_idx, self._heard, self._of_kind = place, heard, of_kind
            self._running -= 1

    @property
    def _total(self) -> int:
        return prod(self._builder.grid_dim)
