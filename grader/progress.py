"""Tell how far a learner is with an exercise, from the file as it is now and its saved record.

Pure functions: they take texts and records, and read or write no file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from grader.record import CheckResult, Record, left_out_in_words

# no file: nothing to grade. not started: the untouched stub. not graded: no record of this file. changed: the record is
# of an earlier text. begun: a check failed or was left out, or a whole part was not judged. done: all that could be
# judged here passed.
State = Literal["no file", "not started", "not graded", "changed", "begun", "done"]

# Statuses of a machine or a measurement, not of the learner: neither keeps an exercise from being done.
_ELSEWHERE = frozenset({"skipped_environment", "inconclusive"})


@dataclass(frozen=True)
class Progress:
    """A learner's progress with one exercise.

    earned, judged: points of the saved record, earned and judged. whole: all points. open: the record's checks that
    keep the exercise from being done. left_out: how many checks the record lacks, because parts were left out.
    unjudged: a sentence on the whole parts that this machine could not judge.
    """

    state: State
    earned: float = 0.0
    judged: float = 0.0
    whole: float = 0.0
    open: tuple[CheckResult, ...] = ()
    left_out: int = 0
    unjudged: str = ""

    @property
    def is_done(self) -> bool:
        """Return whether all that could be judged here passed, in the file as it is now."""
        return self.state == "done"


@dataclass(frozen=True)
class File:
    """A learner's file: its absolute path, its text (None: there is none), and the text of the untouched stub."""

    path: str
    text: str | None
    stub: str | None


def progress_of_file(file: File, record: Record | None, checks: Collection[str], spec_sha256: str) -> Progress:
    """Return the progress of a file.

    `checks` are the ids of all checks of the exercise; spec_sha256 is the hash of their specification.
    """
    if file.text is None:
        return Progress("no file")
    if file.text == file.stub:
        return Progress("not started")
    if record is None or record.submission.path != file.path:
        return Progress("not graded")
    sha256 = hashlib.sha256(file.text.encode()).hexdigest()
    same = record.submission.sha256 == sha256 and record.exercise.spec_sha256 == spec_sha256
    left_out = len(set(checks) - {check.id for check in record.checks})
    missing = tuple(check for check in record.checks if check.status != "pass" and check.status not in _ELSEWHERE)
    passed = any(check.status == "pass" for check in record.checks)
    unjudged = left_out_in_words(record.checks)
    is_done = passed and not missing and not left_out and not unjudged
    state: State = "changed" if not same else "done" if is_done else "begun"
    return Progress(state, record.score, record.judged_score, record.max_score, missing, left_out, unjudged)


def words(progress: Progress) -> str:
    """Return the progress in words: "12 of 75 points", "done: 75 of 75 points, 25 more cannot be judged here"."""
    points = f"{_points(progress.earned)} of {_points(progress.judged)} points"
    match progress.state:
        case "no file":
            return "no file"
        case "not started":
            return "not started"
        case "not graded":
            return "not graded yet"
        case "changed":
            return f"changed since it got {points}"
        case "begun":
            left_out = f"{progress.left_out} checks were left out" if progress.left_out else ""
            return "; ".join(filter(None, (points, left_out, progress.unjudged)))
        case "done":
            beyond = progress.whole - progress.judged
            return f"done: {points}" + (f", {_points(beyond)} more cannot be judged here" if beyond else "")


def bar(progresses: Collection[Progress], *, width: int, ascii_only: bool = False) -> str:
    """Return a bar of `width` characters and a number: how many exercises are done."""
    done = sum(progress.is_done for progress in progresses)
    # An exercise that is begun counts for the share of its points, and never for a whole one.
    part = sum(_share(progress) for progress in progresses)
    filled = int(width * part / max(len(progresses), 1) + 1e-9)
    full, empty = ("#", "-") if ascii_only else ("█", "░")
    return f"{full * filled}{empty * (width - filled)} {done} of {len(progresses)} done"


def _share(progress: Progress) -> float:
    if progress.is_done:
        return 1.0
    return 0.99 * progress.earned / progress.judged if progress.state == "begun" and progress.judged else 0.0


def _points(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
