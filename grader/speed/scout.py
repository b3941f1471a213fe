"""A second process of the submission that goes ahead: it runs every size that will be timed once, while answers are
still being judged, so that its kernels are compiled when the clock starts. Nothing that it does counts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from time import monotonic

from grader.model.exercise import Limits, Part, SpeedBand
from grader.protocol.messages import Recipe, Start, Timed
from grader.sandbox.leash import CalledOff
from grader.sandbox.outcome import Clocking
from grader.sandbox.scratch import Scratch
from grader.sandbox.server import Spawner
from grader.sandbox.session import Session
from grader.speed.lock import GpuLock

_CALL_S = 60.0
# However long the compiler takes, the answers' verdict does not wait for ever.
_PATIENCE_S = 60.0
_END_S = 20.0
_COVER_BYTES = 1 << 20


class Scout:
    """Use as a context manager: when it ends, its process has ended."""

    def __init__(self, server: Spawner, start: Start, limits: Limits, scratch: Scratch, lock: GpuLock) -> None:
        self._session = Session(server, start, limits, scratch, beside=True)
        self._lock = lock
        self._recalled = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Scout:
        return self

    def __exit__(self, *_: object) -> None:
        self.recall(patience_s=0.0)

    def send(self, parts: Sequence[Part]) -> None:
        """Go ahead over the suites of these parts."""
        self._thread = threading.Thread(target=self._run, args=(tuple(parts),), daemon=True)
        self._thread.start()

    def recall(self, patience_s: float = _PATIENCE_S) -> None:
        """Wait until it is done, but not for ever, and end its process: the GPU has to be quiet now."""
        thread = self._thread
        if thread is None:
            return
        thread.join(patience_s)
        self._recalled.set()
        deadline = monotonic() + _END_S
        while thread.is_alive() and monotonic() < deadline:
            # It may just have started another process.
            self._session.restart()
            thread.join(0.2)
        self._thread = None

    def _run(self, parts: tuple[Part, ...]) -> None:
        # What goes wrong here, the process that counts will find out.
        with suppress(Exception, CalledOff), self._session:
            for timed in _courses(parts):
                with self._lock.shared():
                    if self._recalled.is_set():
                        return
                    ran = self._session.timed(timed, 1, _CALL_S)
                if not isinstance(ran, Clocking) and self._session.pid is None:
                    return


def _courses(parts: Sequence[Part]) -> Iterator[Timed]:
    for part in parts:
        for check in part.checks:
            if isinstance(check.rule, SpeedBand):
                for case in check.rule.suite.named:
                    recipe = Recipe(part.name, dict(case), 0)
                    yield Timed(part.name, recipe, part.arguments, part.mutates, "stream", _COVER_BYTES)
