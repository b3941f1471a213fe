"""Find the learner's next step: the next part of an exercise, or the next exercise."""

from __future__ import annotations

from collections.abc import Sequence

from grader.cli import saved
from grader.exercise.catalogue import Entry, discover
from grader.progress import PartState, Progress, words
from grader.record.record import Record
from grader.report import view
from grader.report.view import Step

# The advice for the next part, by its state.
_TO_DO: dict[PartState, str] = {
    "open": "repair",
    "changed": "grade the new",
    "not graded": "grade",
    "not started": "write",
}


def next_line(entries: Sequence[Entry]) -> str:
    """Return the next step in these exercises: "Next: write vector_add: grade watch ex_15"; '' if there is none."""
    for entry in entries:
        progress = saved.progress_of(entry)
        if progress.state == "no file":
            return f"Next: grade reset {entry.id}"
        if (part := progress.next_part) is not None:
            return f"Next: {_TO_DO[part.state]} {part.name}: grade watch {entry.id}"
    return ""


def step_after(entry: Entry, record: Record) -> Step | None:
    """Return the next step after a record of the learner's own file without failures.

    It is a part that the record lacks, or the next exercise. None: the record itself names the next step.
    """
    if not saved.is_own(entry, record) or not any(check.status == "pass" for check in record.checks):
        return None
    if any(check.status in (*view.LEARNERS, "grader_error", "inconclusive") for check in record.checks):
        return None
    if (part := saved.progress_of(entry).next_part) is not None:
        return Step(f"{_TO_DO[part.state]} {part.name}", f"grade {entry.id} --part {part.name}")
    following = next_exercise(entry)
    if following is None:
        return None
    return Step(f"go on with {following.exercise.title}", f"grade watch {following.id}")


def next_exercise(entry: Entry) -> Entry | None:
    """Return the next unfinished exercise, in the order of the course; None if none is left.

    After the last exercise the search goes on from the first.
    """
    entries = discover(entry.root)
    place = [one.name for one in entries].index(entry.name)
    after = [*entries[place + 1 :], *entries[:place]]
    return next((one for one in after if saved.has_something_to_do(saved.progress_of(one))), None)


def progress_words(entry: Entry, progress: Progress) -> str:
    """Return the learner's progress in words."""
    after = f"; grade reset {entry.id} brings the stub back" if progress.state == "no file" else ""
    return words(progress) + after
