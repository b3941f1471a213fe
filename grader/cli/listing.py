"""The list of exercises with the learner's progress, as a table and as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from grader.cli import saved
from grader.cli.terminal import terminal_of
from grader.exercise.catalogue import Entry, discover, find_root
from grader.progress import PartState, Progress, bar, words
from grader.record import Record
from grader.report import view
from grader.report.view import Step

_BAR = 20
# The advice for the next part, by its state.
_TO_DO: dict[PartState, str] = {
    "open": "repair",
    "changed": "grade the new",
    "not graded": "grade",
    "not started": "write",
}


def list_exercises(*, as_json: bool) -> None:
    """Print every exercise with its parts and the learner's progress."""
    entries = discover(find_root())
    if as_json:
        print(json.dumps([_row(entry) for entry in entries], indent=1))
        return
    print(table(entries, terminal_of(sys.stdout)[1]), end="")
    if following := next_line(entries):
        print(f"\n{following}")


def _row(entry: Entry) -> dict[str, object]:
    progress = saved.progress_of(entry)
    return {
        "id": entry.id,
        "name": entry.name,
        "title": entry.exercise.title,
        "parts": [part.name for part in entry.exercise.parts],
        "path": str(entry.stub),
        "state": progress.state,
        "part_states": {part.name: part.state for part in progress.parts},
        "next_part": progress.next_part.name if progress.next_part is not None else None,
        "words": progress_words(entry, progress),
        "points": progress.earned,
        "judged_points": progress.judged,
        "max_points": sum(part.points for part in entry.exercise.parts),
        "attempts": saved.attempts(entry),
    }


def table(entries: Sequence[Entry], ascii_only: bool = False) -> str:
    """Return the list as text: three lines for each exercise, and the progress with the course."""
    progresses = [saved.progress_of(entry) for entry in entries]
    lines = []
    for entry, progress in zip(entries, progresses, strict=True):
        lines.append(f"{entry.id}  {entry.exercise.title}: {progress_words(entry, progress)}")
        lines.append(f"       {', '.join(part.name for part in entry.exercise.parts)}")
        lines.append(f"       {entry.stub.relative_to(entry.root)}")
    if entries:
        lines += ["", bar(progresses, width=_BAR, ascii_only=ascii_only)]
    return "".join(f"{line}\n" for line in lines)


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
    return Step("go on to the next exercise", f"grade watch {following.id}") if following is not None else None


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
