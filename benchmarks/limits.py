"""Count with Nsight Compute what the kernels of a file keep busy, at the longest judged size of each timed part.

Needs a GPU whose counters may be read. Nothing is judged by these counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.markdown import table
from grader import machine
from grader.cli.roofline import percent
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.record.record import Record
from grader.record.speed import SizeTiming
from grader.report.speed import duration, size_words
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.server import ForkServer
from grader.speed import counters
from grader.speed.counters import Counters, LaunchCounters
from grader.speed.lock import GpuLock

HEAD = """## What limits each kernel

Counted by the GPU itself (ncu) in one call at the longest judged size of each part, with cold caches. *Memory*, *SM*
and *tensor cores* are the shares of their peaks at which DRAM, the busiest unit of the multiprocessors, and the tensor
cores work. Where none is near its peak, the kernel waits for its own steps; the file's docstring says for which, and
what was tried against it.
"""
_SEED = 1
_SHARES = (counters.DRAM, counters.SM, counters.TENSOR)


@dataclass(frozen=True)
class Longest:
    """The longest judged size of a part, and how a page names it."""

    size: SizeTiming
    words: str


def longest(record: Record) -> dict[str, Longest]:
    """Return the longest judged size of each timed part, by the part's name."""
    found: dict[str, Longest] = {}
    for check in record.checks:
        sizes = check.speed.sizes if check.speed else ()
        words = size_words(sizes, check.speed.curves) if check.speed else []
        judged = [Longest(*both) for both in zip(sizes, words, strict=True) if both[0].judged]
        if judged:
            found[check.part] = max(judged, key=lambda one: one.size.submission.median_us)
    return found


def count(entry: Entry, path: Path, record: Record) -> tuple[Counters, ...]:
    """Return the counts of each timed part. Without ncu, each says why it holds none."""
    sizes = longest(record)
    executable, gpu = counters.find(), machine.find_gpu()
    if executable is None:
        return tuple(Counters(part, one.words, why="ncu is not installed") for part, one in sizes.items())
    parts = [part for part in entry.exercise.parts if part.name in sizes]
    calls = [(part, Case(sizes[part.name].size.case), _SEED) for part in parts]
    with closing(ForkServer("gpu")) as server, GpuLock(gpu.uuid if gpu else "unknown").exclusive():
        found = tuple(counters.count(ProcessSpec.of(server, entry, path.read_text()), executable, calls))
    return tuple(replace(one, words=sizes[one.part].words) for one in found)


def section(found: Sequence[tuple[str, Counters]]) -> str:
    """Return the section of the page. found: the path of each file, and the counts of one of its parts."""
    titles = ("file", "part", "size", "kernel", "time", "memory", "SM", "tensor cores")
    rows = [row for file, counted in found for row in _rows(file, counted)]
    missing = [f"- {file}, {counted.part}: {counted.why}\n" for file, counted in found if counted.why]
    return f"{HEAD}\n{table(titles, rows)}" + ("\nNot counted:\n\n" + "".join(missing) if missing else "")


def _rows(file: str, counted: Counters) -> list[tuple[str, ...]]:
    """Return the launches, one for each kernel: the longest."""
    by_kernel: dict[str, LaunchCounters] = {}
    for launch in sorted(counted.launches, key=lambda one: one.time_us or 0.0):
        by_kernel[launch.kernel] = launch
    place = file, counted.part, counted.words
    return [
        (*place, one.kernel, duration(one.time_us or 0.0), *(percent(name)(one) for name in _SHARES))
        for one in by_kernel.values()
    ]
