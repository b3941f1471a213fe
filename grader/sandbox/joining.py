"""Lets processes join a common piece of work one by one: a further one only where a step takes long.

A process takes a while to start. Where an earlier grading compiled everything already, one process finds all of it
sooner than others start.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Semaphore, Timer
from typing import TypeVar

# What was compiled earlier is found in less, in seconds.
FOUND_S = 0.3

T = TypeVar("T")


class Joining:
    """Says when one more may join. first: how many begin at once."""

    def __init__(self, first: int = 1, long_s: float = FOUND_S) -> None:
        self._room = Semaphore(first)
        self._long_s = long_s
        # How many steps were made, and whether one of them was long.
        self.steps = 0
        self.has_long = False

    def join(self) -> None:
        """Wait until there is work for one more, or until `open` is called."""
        self._room.acquire()

    def step(self, work: Callable[[], T]) -> T:
        """Do one step of the work; as soon as it has taken long, one more joins."""
        timer = Timer(self._long_s, self._is_long)
        timer.daemon = True
        timer.start()
        try:
            return work()
        finally:
            timer.cancel()
            self.steps += 1

    def _is_long(self) -> None:
        self.has_long = True
        self._room.release()

    def open(self, count: int) -> None:
        """Let so many more in: nothing is left to do for them but to end."""
        self._room.release(count)
