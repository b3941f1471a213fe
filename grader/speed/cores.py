"""Keeps the processes that a clock depends on from sharing a processor core while kernels are timed.

A process that shares its core with one that spins takes half as long again for everything, and the scheduler may leave
it there for seconds: tens of microseconds in every round trip.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from grader.speed.lock import TEMPORARY, claimed_core

_TOPOLOGY = Path("/sys/devices/system/cpu")


@contextmanager
def apart(processes: Sequence[int], folder: Path = TEMPORARY) -> Iterator[None]:
    """This thread and the main threads of the processes each run on a core of their own, where there are enough.

    Of two graders that time on two GPUs, each has cores of its own. `folder` is where graders of this host meet.
    """
    allowed = os.sched_getaffinity(0)
    cores = physical(sorted(allowed))
    with contextlib.ExitStack() as claims:
        # Not the first ones, where interrupts are served.
        free = (core for core in reversed(cores[1:]) if claims.enter_context(claimed_core(core, folder)))
        places = list(islice(free, 1 + len(processes))) if len(cores) > 2 * len(processes) else []
        if len(places) <= len(processes):
            yield
            return
        try:
            for process, place in zip((0, *processes), places, strict=True):
                # A process of another user, or one that has just ended, stays where it is.
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(process, {place})
            yield
        finally:
            for process in (0, *processes):
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(process, allowed)


def physical(processors: Sequence[int], topology: Path = _TOPOLOGY) -> list[int]:
    """The first processor of every core."""
    found: dict[str, int] = {}
    for processor in processors:
        siblings = topology / f"cpu{processor}" / "topology" / "thread_siblings_list"
        try:
            core = siblings.read_text(encoding="ascii").strip()
        except OSError:
            core = str(processor)
        found.setdefault(core, processor)
    return list(found.values())
