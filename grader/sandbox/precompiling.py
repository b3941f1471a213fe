"""Compile the launches that will be timed, in several processes at once.

Takes the processes, the recorded calls, and a number of seconds. Gives the configurations of each call that were not
compiled in time; tuning leaves them out. Also gives the names of those that took all the time: nobody should wait for
them again. Runs no kernel, and reports no kernel that does not compile.

Each call needs one configuration; in an autotuned call, that is the one with the smallest constants. The needed
configurations are compiled first, and the seconds do not limit them. Then the seconds begin, and the other
configurations are compiled until they are over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from math import gcd
from queue import Empty, SimpleQueue
from threading import Lock
from time import monotonic
from typing import Any, Protocol, TypeVar

from grader.protocol.answers import Precompiled, Raised
from grader.protocol.configurations import lightest, likeness
from grader.protocol.requests import Call, Precompile
from grader.protocol.trace import Trace, choices_in
from grader.sandbox.joining import Joining
from grader.sandbox.outcome import TimedOut, Unanswered

# The limit for the needed configuration of one call. Announced compiling does not count: it has its own limits.
_NEEDED_S = 60.0
# The other configurations of all autotuners at all sizes, together.
TUNING_S = 10.0
# A configuration that took this share of these seconds in a process of its own is skipped the next time.
_HOPELESS = 0.8
# Steps of this share of a list land far from all earlier steps.
_GOLDEN = 0.618
# The number of processes that begin together.
_AT_ONCE = 2

T = TypeVar("T")
# The place of a call, and the place of a configuration of its autotuners.
Unit = tuple[int, int]


class CompilerProcess(Protocol):
    """A process of the submission that compiles. grader.sandbox.session.Session is one."""

    def wake(self) -> None:
        """Start the process if it does not run."""

    def precompile(
        self, request: Precompile, limit_s: float, *, counted: bool = False
    ) -> Precompiled | Raised | Unanswered:
        """Compile the launches of a trace.

        limit_s: the seconds for the answer. counted: compiling counts towards them; otherwise it has its own limits.
        """


class PrecompileJob(Protocol):
    """A call that was recorded."""

    @property
    def call(self) -> Call:
        """Return the call."""

    @property
    def trace(self) -> Trace:
        """Return its trace, decoded."""

    @property
    def message(self) -> Any:
        """Return the trace as it came."""


@dataclass(frozen=True)
class Late:
    """The units that were not compiled in time.

    places: for each call, the places of its configurations. slow: the names of those that took all the time.
    """

    places: tuple[frozenset[int], ...]
    slow: frozenset[str] = frozenset()


@dataclass
class _Work:
    """The units left to compile, and those that were not ready in time.

    groups: units that probably compile to the same code; one process compiles a whole group. slow: names of those that
    took all the time. ends_at: when the seconds of the other configurations are over, on the clock of `monotonic`; 0
    before they begin.
    """

    calls: Sequence[PrecompileJob]
    tuning_s: float
    needed: SimpleQueue[Unit] = field(default_factory=SimpleQueue)
    groups: SimpleQueue[list[Unit]] = field(default_factory=SimpleQueue)
    untried: list[Unit] = field(default_factory=list)
    slow: set[str] = field(default_factory=set)
    ends_at: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    @property
    def is_done(self) -> bool:
        """Return whether nothing is left to take."""
        return self.needed.empty() and self.groups.empty()

    def begin_tuning(self) -> None:
        """Start the clock of the other configurations, once."""
        with self._lock:
            self.ends_at = self.ends_at or monotonic() + self.tuning_s

    def name_of(self, unit: Unit) -> str:
        """Return a name that is equal for units that probably compile to the same code."""
        place, configuration = unit
        return hashlib.sha256(repr(likeness(self.calls[place].trace, configuration)).encode()).hexdigest()[:32]


def precompile(
    processes: Sequence[CompilerProcess],
    calls: Sequence[PrecompileJob],
    tuning_s: float = TUNING_S,
    slow: frozenset[str] = frozenset(),
) -> Late:
    """Compile the launches of calls, and return what was not ready in time.

    A needed configuration is never late. One that raised counts as ready: it raises again where it is timed. If a
    process gives no answer (late, dead, out of memory), the rest of the group is not ready either.

    tuning_s: the seconds for all other configurations together, of all calls. slow: names of units that an earlier run
    gave up; they are late at once.
    """
    work = _Work(calls, tuning_s)
    for unit in _needed(calls):
        work.needed.put(unit)
    for group in _groups(calls):
        if slow and work.name_of(group[0]) in slow:
            work.untried += group
        else:
            work.groups.put(group)
    joining = Joining(_AT_ONCE)
    ended: list[Future[None]] = []
    with ThreadPoolExecutor(len(processes)) as pool:
        for done in [pool.submit(_compile, one, work, joining) for one in processes]:
            # Once one process finds no work left, the others need not wait.
            done.add_done_callback(lambda _: joining.open(len(processes)))
            ended.append(done)
    for done in ended:
        done.result()
    places = (frozenset(place for call, place in work.untried if call == one) for one in range(len(calls)))
    return Late(tuple(places), frozenset(work.slow))


def _compile(process: CompilerProcess, work: _Work, joining: Joining) -> None:
    """Compile with one process until no unit is left.

    After the time is up, the units that are left go to `untried`.
    """
    joining.join()
    if work.is_done:
        return
    process.wake()
    for place, configuration in _drain(work.needed):
        recorded = work.calls[place]
        request = Precompile(recorded.call, recorded.message, configuration)
        joining.step(partial(process.precompile, request, _NEEDED_S))
    work.begin_tuning()
    for group in _drain(work.groups):
        for done, unit in enumerate(group):
            if not _compile_in_time(process, work, joining, unit):
                work.untried += group[done:]
                break


def _compile_in_time(process: CompilerProcess, work: _Work, joining: Joining, unit: Unit) -> bool:
    """Compile one unit while there is time; return whether it is ready. A failed one counts as ready."""
    recorded, left_s = work.calls[unit[0]], work.ends_at - monotonic()
    request = Precompile(recorded.call, recorded.message, unit[1])
    if left_s <= 0:
        return False
    answer = joining.step(partial(process.precompile, request, left_s, counted=True))
    if isinstance(answer, TimedOut) and left_s >= _HOPELESS * work.tuning_s:
        work.slow.add(work.name_of(unit))
    return isinstance(answer, Precompiled | Raised)


def _drain(queue: SimpleQueue[T]) -> Iterator[T]:
    while True:
        try:
            yield queue.get_nowait()
        except Empty:
            return


def _needed(calls: Sequence[PrecompileJob]) -> list[Unit]:
    """Return the needed unit of each call: the configuration with the smallest constants, 0 without an autotuner."""
    return [(place, lightest(recorded.trace)) for place, recorded in enumerate(calls)]


def _groups(calls: Sequence[PrecompileJob]) -> list[list[Unit]]:
    """Return all units but the needed ones, in groups that probably compile to the same code.

    Neighbours in a list of configurations are alike, so the order jumps through the list. It takes one configuration
    of every call before the next one of any call. If the time ends early, some of every kind are compiled.
    """
    found: dict[object, list[Unit]] = {}
    counts = [max((len(one.alternatives) for one in choices_in(recorded.trace.steps)), default=0) for recorded in calls]
    needed = {*_needed(calls)}
    for configuration in _spread(max(counts, default=0)):
        for place, recorded in enumerate(calls):
            if configuration < counts[place] and (place, configuration) not in needed:
                found.setdefault(likeness(recorded.trace, configuration), []).append((place, configuration))
    return list(found.values())


def _spread(count: int) -> list[int]:
    """Return the numbers below `count` in an order that jumps: each is far from those just before it.

    This also holds for each option, if the list is a product of options.
    """
    step = max(1, round(count * _GOLDEN))
    while gcd(step, count) > 1:
        step += 1
    return [one * step % count for one in range(count)]
