"""Run independent replays in several processes at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from queue import Empty, LifoQueue
from threading import Lock
from typing import Protocol

from grader.protocol.requests import ReplayCall
from grader.sandbox.joining import FOUND_S
from grader.sandbox.outcome import Outcome


class Replays(Protocol):
    """A process that replays. It starts with the first question."""

    @property
    def pid(self) -> int | None:
        """Return its process id; None while it does not run."""

    def replay(self, request: ReplayCall, most_s: float) -> Outcome:
        """Have one call replayed, within so many seconds."""


class Idle:
    """The idle processes. One that does not run yet is taken only if all others stay busy for a while.

    Starting a process takes longer than most replays, and simultaneous starts slow each other down.
    """

    def __init__(self, processes: Sequence[Replays], patience_s: float = FOUND_S) -> None:
        # The most recently busy one is given first.
        self._awake: LifoQueue[Replays] = LifoQueue()
        self._asleep = [one for one in reversed(processes) if one.pid is None]
        self._patience_s = patience_s
        self._starting = Lock()
        for one in reversed(processes):
            if one.pid is not None:
                self._awake.put(one)
        if len(self._asleep) == len(processes):
            self._awake.put(self._asleep.pop())

    def take(self) -> Replays:
        """Wait for an idle process and return it."""
        with self._starting:
            try:
                return self._awake.get(timeout=self._patience_s if self._asleep else None)
            except Empty:
                return self._asleep.pop()

    def give_back(self, process: Replays) -> None:
        """Mark a process as idle again."""
        self._awake.put(process)


class SideBySide:
    """Runs replays in the order given, each in the next idle process. Call `close` at the end.

    prepare: called first on each of its threads, which make the jobs' questions.
    """

    def __init__(self, replayers: Sequence[Replays], prepare: Callable[[], object]) -> None:
        self._idle = Idle(replayers)
        self._pool = ThreadPoolExecutor(len(replayers), "side by side", initializer=prepare)
        self._outcomes: dict[int, Future[Outcome]] = {}

    def begin(self, place: int, job: Callable[[], ReplayCall], most_s: float = math.inf) -> None:
        """Begin a replay under a number. job: makes the question. most_s: a limit below that of calls."""
        self._outcomes[place] = self._pool.submit(self._replay, job, most_s)

    def outcome(self, place: int) -> Outcome | None:
        """Wait for the outcome of a replay; None where none was begun, or it was cancelled."""
        found = self._outcomes.get(place)
        return None if found is None or found.cancelled() else found.result()

    def close(self) -> None:
        """Begin no further replay, and wait for the running ones.

        Their threads end later: joining them takes a lock of CPython's, which the thread that the garbage collector
        interrupts may hold.
        """
        self._pool.shutdown(wait=False, cancel_futures=True)
        wait([one for one in self._outcomes.values() if not one.cancelled()])

    def _replay(self, job: Callable[[], ReplayCall], most_s: float) -> Outcome:
        # Making the question takes time: take a process only afterwards.
        question = job()
        replayer = self._idle.take()
        try:
            return replayer.replay(question, most_s)
        finally:
            self._idle.give_back(replayer)
