"""Give each process that a clock depends on a processor core of its own while kernels are timed.

A process that shares its core with a spinning one takes half as long again for everything, and the scheduler may leave
it there for seconds: this adds tens of microseconds to every round trip.
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
# The submission's process and the baseline process.
_TIMED = 2


@contextmanager
def separate_cores(processes: Sequence[int], folder: Path = TEMPORARY) -> Iterator[None]:
    """Run this thread and the main threads of the processes on a core each, if there are enough cores.

    Two graders that time on two GPUs get different cores. `folder` holds the locks that graders of this host share.
    """
    allowed = os.sched_getaffinity(0)
    cores = physical_cores(sorted(allowed))
    with contextlib.ExitStack() as claims:
        # Skip the first cores: they serve interrupts.
        free = (core for core in reversed(cores[1:]) if claims.enter_context(claimed_core(core, folder)))
        places = list(islice(free, 1 + len(processes))) if len(cores) > 2 * len(processes) else []
        if len(places) <= len(processes):
            claims.close()
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


def shares(count: int, topology: Path = _TOPOLOGY) -> tuple[str, ...]:
    """Return the processors of each of `count` graders, such as "0,1,8,9": whole cores, equally many, none shared.

    '' for each if one grader has all, or if a share would be too small to time in.
    """
    cores = _cores(sorted(os.sched_getaffinity(0)), topology)
    each = len(cores) // count
    if count == 1 or each <= 2 * _TIMED:
        return ("",) * count
    parts = (cores[place * each : (place + 1) * each] for place in range(count))
    return tuple(",".join(str(processor) for core in part for processor in core) for part in parts)


def stay_on(share: str) -> None:
    """Keep this thread, and all that it starts, on these processors, as far as the process may use them."""
    processors = {int(one) for one in share.split(",") if one.isdigit()} & os.sched_getaffinity(0)
    if processors:
        os.sched_setaffinity(0, processors)


def physical_cores(processors: Sequence[int], topology: Path = _TOPOLOGY) -> list[int]:
    """Return the first processor of every core."""
    return [core[0] for core in _cores(processors, topology)]


def _cores(processors: Sequence[int], topology: Path) -> list[list[int]]:
    """Return the processors, grouped by the core that they are threads of."""
    found: dict[str, list[int]] = {}
    for processor in processors:
        siblings = topology / f"cpu{processor}" / "topology" / "thread_siblings_list"
        try:
            core = siblings.read_text(encoding="ascii").strip()
        except OSError:
            core = str(processor)
        found.setdefault(core, []).append(processor)
    return list(found.values())
