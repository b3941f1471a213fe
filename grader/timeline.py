"""Note where a grading's wall time goes: stretches of it, by name. Knows nothing of what is timed.

There is one list for the process, because every room takes time: starting processes, recording and replaying calls,
the oracle, the clock. `spent` notes a stretch; `since` returns the notes, summed up by name.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

# A grading notes some hundreds. A process that grades for days keeps the latest.
_MOST = 20_000


@dataclass(frozen=True)
class Stretch:
    """The time spent on one thing.

    first_s: the first start, in seconds after the grading began (negative: before). seconds: the sum. count: how many
    times. beside: whether another thread than the grading's own spent it.
    """

    what: str
    first_s: float
    seconds: float
    count: int = 1
    beside: bool = False


@dataclass(frozen=True)
class _Noted:
    what: str
    began_s: float
    ended_s: float
    thread: int


_noted: deque[_Noted] = deque(maxlen=_MOST)


@contextmanager
def spent(what: str) -> Iterator[None]:
    """Note how long the block took, however it ends."""
    began_s = time.monotonic()
    try:
        yield
    finally:
        _noted.append(_Noted(what, began_s, time.monotonic(), threading.get_ident()))


def since(began_s: float, *, before_s: float = 0.0) -> tuple[Stretch, ...]:
    """Return the stretches that began at `began_s` (of time.monotonic) or up to `before_s` earlier.

    They are summed up by name, and ordered by their first start.
    """
    me = threading.get_ident()
    found: dict[tuple[str, bool], list[_Noted]] = {}
    for one in [*_noted]:
        if one.began_s >= began_s - before_s:
            found.setdefault((one.what, one.thread != me), []).append(one)
    stretches = [
        Stretch(
            what,
            round(min(one.began_s for one in ones) - began_s, 3),
            round(sum(one.ended_s - one.began_s for one in ones), 3),
            len(ones),
            beside,
        )
        for (what, beside), ones in found.items()
    ]
    return tuple(sorted(stretches, key=lambda one: (one.first_s, -one.seconds)))


def age_s() -> float:
    """Return the age of this process in seconds; 0 if the system does not say."""
    try:
        with open("/proc/self/stat", encoding="ascii") as stat:
            ticks = int(stat.read().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0.0
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
