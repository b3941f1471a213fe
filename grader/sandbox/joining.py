"""Let processes join common work one by one, each only if a step takes long.

A process takes time to start. If an earlier grading compiled everything, one process finds it all before others have
started.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Semaphore, Timer
from typing import TypeVar

# The seconds within which an earlier compilation is found.
FOUND_S = 0.3

T = TypeVar("T")


class Joining:
    """A gate for processes. first: the number that begin at once."""

    def __init__(self, first: int = 1, long_s: float = FOUND_S) -> None:
        self._room = Semaphore(first)
        self._long_s = long_s
        # The number of steps made so far.
        self.steps = 0
        self.has_long = False

    def join(self) -> None:
        """Wait until there is work for one more, or until `open` is called."""
        self._room.acquire()

    def step(self, work: Callable[[], T]) -> T:
        """Do one step of the work; let one more join as soon as the step takes long."""
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
        """Let `count` more in, so that they see that no work is left, and end."""
        self._room.release(count)
