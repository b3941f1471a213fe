"""Tell how far predicted times are from measured ones, part by part.

A record holds the predictions of the day on which it was made. `recount` counts its file again, in the interpreter of
this machine, and predicts with the present model and the ceilings that were measured then; no GPU is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks.markdown import table
from grader.cli.roofline import Roofline, rooflines
from grader.exercise.catalogue import Entry
from grader.gpus import known
from grader.record.checks import CheckResult
from grader.record.record import Record
from grader.record.speed import Speed
from grader.report.speed import size_words
from grader.speed.prediction import CountedPart

HEAD = """## Predicted times

The [prediction](efficiency.md#predicted-times) knows counts from small cases and this GPU's ceilings. *Median* is the
median of the sizes' errors without their signs, over all timed sizes; minus means that a call took longer than
predicted.
"""


@dataclass(frozen=True)
class Predicted:
    """The predictions of one part: the errors by size, or why there are none."""

    file: str
    part: str
    errors: dict[str, float]
    why: str = ""

    @property
    def median(self) -> float:
        """Return the median of the errors without their signs."""
        return median(map(abs, self.errors.values()))


def section(records: Sequence[tuple[str, Record]]) -> str:
    """Return the section of the page. records: the path of each file, and its record."""
    found = [one for file, record in records for one in predicted(file, record)]
    titles = ("file", "part", "sizes", "median", "least", "most")
    return f"{HEAD}\n{table(titles, map(_cells, found))}"


def predicted(file: str, record: Record) -> Iterator[Predicted]:
    """Yield the predictions of every timed part of a record."""
    for check in record.checks:
        if check.speed is not None:
            both = [one for one in check.predictions if one.measured_us > 0]
            words = size_words(both, check.speed.curves)
            errors = {name: one.time_us / one.measured_us - 1 for name, one in zip(words, both, strict=True)}
            why = next((note for note in check.notes if note.startswith("no time is predicted")), "not counted")
            yield Predicted(file, check.part, errors, "" if errors else why)


def _cells(one: Predicted) -> tuple[str, ...]:
    if not one.errors:
        return one.file, one.part, "0", "–", one.why, ""
    ends = (min(one.errors, key=one.errors.__getitem__), max(one.errors, key=one.errors.__getitem__))
    least, most = (f"{100 * one.errors[words]:+.0f} % ({words})" for words in ends)
    return one.file, one.part, str(len(one.errors)), f"**{100 * one.median:.1f} %**", least, most


def recount(entry: Entry, path: Path, record: Record) -> Record:
    """Return a record with predictions of the present model."""
    timed = {check.part for check in record.checks if check.speed is not None}
    parts = [part for part in entry.exercise.parts if part.name in timed]
    counted = {one.part: one for one in rooflines(entry, str(path), path.read_text(), parts, quiet=True)}
    return replace(record, checks=tuple(_repredicted(entry, record, check, counted) for check in record.checks))


def _repredicted(entry: Entry, record: Record, check: CheckResult, counted: dict[str, Roofline]) -> CheckResult:
    if check.speed is None:
        return check
    part = next(part for part in entry.exercise.parts if part.name == check.part)
    timed = replace(check, speed=_with_kernels(check.speed, record, check.part))
    env, work = record.env, counted[check.part].work
    return CountedPart(part.speed_bands[0], work).with_predictions(timed, env.gpu, env.capability)


def _with_kernels(speed: Speed, record: Record, part: str) -> Speed:
    """Return the sizes with the names of their kernels: in older records, those that were compiled for its GPU."""
    architecture = known(record.env.capability)
    target = architecture.name if architecture else ""
    compiled = [one for info in record.parts if info.name == part for one in info.kernels if one.target == target]
    names = tuple(dict.fromkeys(one.kernel for one in compiled))
    return replace(speed, sizes=tuple(replace(size, kernels=size.kernels or names) for size in speed.sizes))
