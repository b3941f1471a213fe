"""Compiles the launches that will be timed, in several processes at once.

The configuration that must run is compiled without a limit on the total time. The other configurations of autotuners
are compiled while there is time: the rest are not tried, and the scorecard says so. Runs no kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from math import gcd
from queue import Empty, SimpleQueue
from threading import Lock
from time import monotonic
from typing import Any, Protocol, TypeVar

from grader.protocol.configurations import lightest, likeness
from grader.protocol.messages import Call, Precompile, Precompiled, Raised
from grader.protocol.trace import Trace, choices_in
from grader.sandbox.joining import Joining
from grader.sandbox.outcome import Unanswered

# The limit for the needed configuration of one call, without compiling itself.
_NEEDED_S = 60.0
# The other configurations of all autotuners at all sizes, together.
TUNING_S = 10.0
# A step of this share of a list stays away from its earlier steps for longest.
_GOLDEN = 0.618
# The number of processes that begin together.
_AT_ONCE = 2

T = TypeVar("T")
# A call's place among the calls, and the place of a configuration of its autotuners.
Unit = tuple[int, int]


class CompilerProcess(Protocol):
    """A process that compiles."""

    def wake(self) -> None:
        """Start it if it does not run."""

    def precompile(
        self, wanted: Precompile, limit_s: float, *, counted: bool = False
    ) -> Precompiled | Raised | Unanswered:
        """Compile the launches of a trace. counted: compiling counts towards the limit."""


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


@dataclass
class _Work:
    """The units left to compile. groups: units that probably compile to the same code, which one process compiles."""

    calls: Sequence[PrecompileJob]
    needed: SimpleQueue[Unit] = field(default_factory=SimpleQueue)
    groups: SimpleQueue[list[Unit]] = field(default_factory=SimpleQueue)
    untried: list[Unit] = field(default_factory=list)
    ends_at: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    @property
    def is_done(self) -> bool:
        """Return whether nothing is left to take."""
        return self.needed.empty() and self.groups.empty()

    def begin_tuning(self, tuning_s: float) -> None:
        """Start the clock of the other configurations, once."""
        with self._lock:
            self.ends_at = self.ends_at or monotonic() + tuning_s


def precompile(
    processes: Sequence[CompilerProcess], calls: Sequence[PrecompileJob], tuning_s: float = TUNING_S
) -> tuple[frozenset[int], ...]:
    """Compile the launches of calls; return, call by call, the configurations that were not ready in time.

    A failure is not reported here: the kernel fails again where it is timed.
    """
    work = _Work(calls)
    for unit in _needed(calls):
        work.needed.put(unit)
    for group in _groups(calls):
        work.groups.put(group)
    joining = Joining(_AT_ONCE)
    ended: list[Future[None]] = []
    with ThreadPoolExecutor(len(processes)) as pool:
        for done in [pool.submit(_compile, one, work, joining, tuning_s) for one in processes]:
            # Once one process finds no work left, the others need not wait.
            done.add_done_callback(lambda _: joining.open(len(processes)))
            ended.append(done)
    for done in ended:
        done.result()
    return tuple(frozenset(place for call, place in work.untried if call == one) for one in range(len(calls)))


def _compile(process: CompilerProcess, work: _Work, joining: Joining, tuning_s: float) -> None:
    """Compile until nothing is left, or the time is up."""
    joining.join()
    if work.is_done:
        return
    process.wake()
    for place, configuration in _taken(work.needed):
        told = work.calls[place]
        wanted = Precompile(told.call, told.message, configuration)
        joining.step(partial(process.precompile, wanted, _NEEDED_S))
    work.begin_tuning(tuning_s)
    for group in _taken(work.groups):
        for done, (place, configuration) in enumerate(group):
            told, left_s = work.calls[place], work.ends_at - monotonic()
            wanted = Precompile(told.call, told.message, configuration)
            compiled = partial(process.precompile, wanted, left_s, counted=True)
            # A Raised counts as ready: a failure is known as well.
            if left_s <= 0 or not isinstance(joining.step(compiled), Precompiled | Raised):
                work.untried += group[done:]
                break


def _taken(queue: SimpleQueue[T]) -> Iterator[T]:
    while True:
        try:
            yield queue.get_nowait()
        except Empty:
            return


def _needed(calls: Sequence[PrecompileJob]) -> list[Unit]:
    """Return what must run: of autotuned calls, the configuration with the smallest constants."""
    return [(place, lightest(told.trace)) for place, told in enumerate(calls)]


def _groups(calls: Sequence[PrecompileJob]) -> list[list[Unit]]:
    """Return all configurations but the needed ones: one of every call before a second of any.

    Neighbours in a list of configurations are alike, and the best are often its last. Where the time ends before the
    list does, some of every kind were compiled.
    """
    found: dict[object, list[Unit]] = {}
    counts = [max((len(one.alternatives) for one in choices_in(told.trace.steps)), default=0) for told in calls]
    needed = {*_needed(calls)}
    for configuration in _spread(max(counts, default=0)):
        for place, told in enumerate(calls):
            if configuration < counts[place] and (place, configuration) not in needed:
                found.setdefault(likeness(told.trace, configuration), []).append((place, configuration))
    return list(found.values())


def _spread(count: int) -> list[int]:
    """Return the numbers below `count`, each far from those before it, also in a product of options."""
    step = max(1, round(count * _GOLDEN))
    while gcd(step, count) > 1:
        step += 1
    return [one * step % count for one in range(count)]
