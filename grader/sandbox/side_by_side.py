"""Replays that need nothing of each other, in several processes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import LifoQueue

from grader.protocol.messages import Replay
from grader.sandbox.outcome import Outcome
from grader.sandbox.session import Session


class SideBySide:
    """Replays what it is given, in that order, each by the next process that is idle. To be closed.

    prepare: what each of its threads, which make the jobs' questions, calls first.
    """

    def __init__(self, replayers: Sequence[Session], prepare: Callable[[], object]) -> None:
        # The one that was busy last is asked first: a process that is never needed is never started.
        self._idle: LifoQueue[Session] = LifoQueue()
        for replayer in reversed(replayers):
            self._idle.put(replayer)
        self._pool = ThreadPoolExecutor(len(replayers), "side by side", initializer=prepare)
        self._outcomes: dict[int, Future[Outcome]] = {}

    def begin(self, place: int, job: Callable[[], Replay]) -> None:
        """Begin a replay under a number; the job makes what the process is asked."""
        self._outcomes[place] = self._pool.submit(self._replay, job)

    def outcome(self, place: int) -> Outcome | None:
        """Wait for what came of a replay; None where none was begun, or no longer."""
        found = self._outcomes.get(place)
        return None if found is None or found.cancelled() else found.result()

    def close(self) -> None:
        """Begin nothing more, and wait for what was begun."""
        self._pool.shutdown(cancel_futures=True)

    def _replay(self, job: Callable[[], Replay]) -> Outcome:
        # What is expected of a call takes its time, too; no process is kept from others meanwhile.
        question = job()
        replayer = self._idle.get()
        try:
            return replayer.replay(question)
        finally:
            self._idle.put(replayer)
