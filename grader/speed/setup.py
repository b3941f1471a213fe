"""Provide what timing needs on this machine: the GPU's lock, and the baseline process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from grader.exercise.catalogue import Entry
from grader.speed.baseline_process import BaselineProcess
from grader.speed.lock import GpuLock


@dataclass(frozen=True)
class TimingSetup:
    """The GPU that a submission is graded on. lock: None without a GPU. baseline_process: None if nothing is timed."""

    baseline_process: BaselineProcess | None
    lock: GpuLock | None
    uuid: str


@contextmanager
def open_setup(
    entry: Entry, uuid: str, baseline_process: BaselineProcess | None, *, timed: bool
) -> Iterator[TimingSetup]:
    """Yield the timing setup of the GPU with that UUID ('': there is none).

    `baseline_process` is one that runs already; without it, one is started if something is timed.
    """
    if not uuid:
        yield TimingSetup(None, None, "")
    elif not timed:
        yield TimingSetup(None, GpuLock(uuid), uuid)
    else:
        with nullcontext(baseline_process) if baseline_process else BaselineProcess(entry) as running:
            yield TimingSetup(running, GpuLock(uuid), uuid)
