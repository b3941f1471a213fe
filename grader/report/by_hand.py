"""Say what a person gave by hand: the points instead of those earned, and the comment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from grader.record.record import Record
from grader.record.verdicts import given_by_hand, points_that_count
from grader.report import view


@dataclass(frozen=True)
class FeedbackView:
    """A person's feedback on a part or on the whole exercise: what it is about, the points in words, the comment."""

    about: str
    points: str
    comment: str
    author: str


def feedback(record: Record) -> tuple[FeedbackView, ...]:
    """Return the feedback on a record: on the whole exercise first, then part by part."""
    places = {"": 0} | {part.name: place for place, part in enumerate(view.parts_of(record), 1)}
    ordered = sorted(record.feedback, key=lambda one: places.get(one.part, len(places)))
    titles = {part.name: view.line(part.title, 120) for part in view.parts_of(record)}
    return tuple(
        FeedbackView(
            titles.get(one.part, "") or view.line(one.part, 100) or "The whole exercise",
            _points(record, one.part, one.points),
            view.block(one.comment),
            view.line(one.author, 120),
        )
        for one in ordered
    )


def _points(record: Record, part: str, given: float | None) -> str:
    if given is None:
        return ""
    checks = [check for check in record.checks if part in ("", check.part)]
    most = view.points(sum(check.max_points for check in checks))
    return f"{view.points(given)} of {most} points instead of {view.points(sum(check.points for check in checks))}"


def lines(record: Record) -> Iterator[str]:
    """Yield the feedback as text, a line for each."""
    for one in feedback(record):
        said = "; ".join(filter(None, (one.points, " ".join(one.comment.split()))))
        yield f"{one.about}: {said} ({one.author})"


def score(record: Record) -> tuple[float, float]:
    """Return the points that count, and of how many: with the points given by hand."""
    given = given_by_hand(record)
    return points_that_count(record.checks, given) if given else (record.score, record.judged_score)
