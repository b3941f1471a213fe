"""Measure a submission's processes all the time, even while the grader asks nothing; kill them over a limit.

Takes functions that measure and that list the processes. Starts and ends nothing else: the owner of the processes
ends them, and asks here why they died.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterable

from grader.sandbox.outcome import OutOfMemory, OutOfSpace

# Each look takes about 10 ms.
_LOOK_S = 1.0


class Watchdog:
    """A thread that measures until `end`. exceeded: the limit that was exceeded, or None so far."""

    def __init__(
        self, measure: Callable[[], OutOfMemory | OutOfSpace | None], processes: Callable[[], Iterable[int]]
    ) -> None:
        self.exceeded: OutOfMemory | OutOfSpace | None = None
        self._measure = measure
        self._processes = processes
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Look no more. After that, no process is killed."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_S):
            self.exceeded = self.exceeded or self._measure()
            if self.exceeded:
                # Repeat it: a child may have been started while the others were listed.
                for pid in self._processes():
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
