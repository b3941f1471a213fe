"""Say what a finished exercise achieved, part by part: a measured speed, or the share of the predicted limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from grader.exercise.interview import Question
from grader.record.checks import CheckResult
from grader.record.record import Record
from grader.record.work import Work
from grader.report import efficiency, view
from grader.report import speed as timing


@dataclass(frozen=True)
class Finish:
    """The end of the page of a finished exercise, beside the record's own figures.

    solution: the command that shows the model solution, '' where there is none. records: the learner's records of other
    exercises, by id, for answers that refer to them.
    """

    solution: str = ""
    questions: tuple[Question, ...] = ()
    records: Mapping[str, Record] = field(default_factory=dict)


@dataclass(frozen=True)
class Achievement:
    """A part, and sentences on how good it is."""

    title: str
    sentences: tuple[str, ...]


def achievements(record: Record) -> tuple[Achievement, ...]:
    """Return the parts with something to tell."""
    found = []
    for part in view.parts_of(record):
        checks = [check for check in record.checks if check.part == part.name]
        if sentences := tuple(filter(None, (_bytes(checks), *map(_time, checks)))):
            found.append(Achievement(part.title, sentences))
    return tuple(found)


def _bytes(checks: Sequence[CheckResult]) -> str:
    """Return the share of the least traffic in the call that is farthest from it."""
    counted = [work for check in checks for work in check.work if work.model_bytes > 0 and work.allowed_bytes >= 0]
    if not counted:
        return ""
    worst = min(counted, key=_share)
    moved, needed = efficiency.amount(worst.moved_bytes), efficiency.amount(worst.model_bytes)
    reached = f"{timing.percent(_share(worst))} of the traffic limit"
    return f"{reached}: {moved} bytes moved at {timing.length_words([worst])[0]}; the limit is {needed}"


def _share(work: Work) -> float:
    return min(1.0, work.model_bytes / max(work.moved_bytes, 1))


def _time(check: CheckResult) -> str:
    """Return the measured speed, or else the predicted time."""
    if check.speed is None:
        return efficiency.predicted(check.predictions)
    judged = timing.judged_sizes(check.speed)
    own = timing.own(judged[-1]) if judged else None
    share = f"; {timing.percent(own.roofline_share)} of the roofline" if own else ""
    return f"{timing.verdict(check.speed)}{timing.certainty(check.speed)}{share}"
