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
class Standing:
    """A learner's progress with one exercise.

    earned, judged: points of the saved record, earned and judged. whole: all points. open: the record's checks that
    keep the exercise from being done. unheard: how many checks the record lacks, because parts were left out.
    unjudged: a sentence on the whole parts that this machine could not judge.
    """

    state: State
    earned: float = 0.0
    judged: float = 0.0
    whole: float = 0.0
    open: tuple[CheckResult, ...] = ()
    unheard: int = 0
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


def standing_of(file: File, record: Record | None, checks: Collection[str], spec_sha256: str) -> Standing:
    """Return the progress of a file.

    `checks` are the ids of all checks of the exercise; spec_sha256 is the hash of their specification.
    """
    if file.text is None:
        return Standing("no file")
    if file.text == file.stub:
        return Standing("not started")
    if record is None or record.submission.path != file.path:
        return Standing("not graded")
    sha256 = hashlib.sha256(file.text.encode()).hexdigest()
    same = record.submission.sha256 == sha256 and record.exercise.spec_sha256 == spec_sha256
    unheard = len(set(checks) - {check.id for check in record.checks})
    missing = tuple(check for check in record.checks if check.status != "pass" and check.status not in _ELSEWHERE)
    passed = any(check.status == "pass" for check in record.checks)
    unjudged = left_out_in_words(record.checks)
    is_done = passed and not missing and not unheard and not unjudged
    state: State = "changed" if not same else "done" if is_done else "begun"
    return Standing(state, record.score, record.judged_score, record.max_score, missing, unheard, unjudged)


def words(standing: Standing) -> str:
    """Return the progress in words: "12 of 75 points", "done: 75 of 75 points, 25 more cannot be judged here"."""
    points = f"{_points(standing.earned)} of {_points(standing.judged)} points"
    match standing.state:
        case "no file":
            return "no file"
        case "not started":
            return "not started"
        case "not graded":
            return "not graded yet"
        case "changed":
            return f"changed since it got {points}"
        case "begun":
            unheard = f"{standing.unheard} checks were left out" if standing.unheard else ""
            return "; ".join(filter(None, (points, unheard, standing.unjudged)))
        case "done":
            beyond = standing.whole - standing.judged
            return f"done: {points}" + (f", {_points(beyond)} more cannot be judged here" if beyond else "")


def bar(standings: Collection[Standing], *, width: int, ascii_only: bool = False) -> str:
    """Return a bar of `width` characters and a number: how many exercises are done."""
    done = sum(standing.is_done for standing in standings)
    # An exercise that is begun counts for the share of its points, and never for a whole one.
    part = sum(_share(standing) for standing in standings)
    filled = int(width * part / max(len(standings), 1) + 1e-9)
    full, empty = ("#", "-") if ascii_only else ("█", "░")
    return f"{full * filled}{empty * (width - filled)} {done} of {len(standings)} done"


def _share(standing: Standing) -> float:
    if standing.is_done:
        return 1.0
    return 0.99 * standing.earned / standing.judged if standing.state == "begun" and standing.judged else 0.0


def _points(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
