"""Where speed is judged: the GPU's lock, and the trusted process that runs the baselines there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from grader.exercise.catalogue import Entry
from grader.speed.baseline_process import BaselineProcess
from grader.speed.lock import GpuLock


@dataclass(frozen=True)
class TimingSetup:
    """A GPU on which a submission is graded. No lock: there is none; no anchor: nothing is timed."""

    anchor: BaselineProcess | None
    lock: GpuLock | None
    uuid: str


@contextmanager
def opened(entry: Entry, uuid: str, anchor: BaselineProcess | None, *, timed: bool) -> Iterator[TimingSetup]:
    """Open the stadium on the GPU of that UUID (empty: there is none). `anchor` is one that runs already."""
    if not uuid:
        yield TimingSetup(None, None, "")
    elif not timed:
        yield TimingSetup(None, GpuLock(uuid), uuid)
    else:
        with nullcontext(anchor) if anchor else BaselineProcess(entry) as running:
            yield TimingSetup(running, GpuLock(uuid), uuid)
