"""The list of exercises with the learner's progress, as a table and as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from grader.cli import saved
from grader.exercise.catalogue import Entry, discover, find_root
from grader.progress import Progress, bar, words

_BAR = 20


def list_exercises(*, as_json: bool) -> None:
    """Print every exercise with its parts and how far the learner is."""
    from grader.cli.run import terminal_of

    entries = discover(find_root())
    if as_json:
        print(json.dumps([_row(entry) for entry in entries], indent=1))
        return
    print(table(entries, terminal_of(sys.stdout)[1]), end="")
    following = next((entry for entry in entries if not saved.progress_of(entry).is_done), None)
    if following is not None:
        print(f"\nNext: grade watch {following.id}")


def _row(entry: Entry) -> dict[str, object]:
    progress = saved.progress_of(entry)
    return {
        "id": entry.id,
        "name": entry.name,
        "title": entry.exercise.title,
        "parts": [part.name for part in entry.exercise.parts],
        "path": str(entry.stub),
        "state": progress.state,
        "words": progress_words(entry, progress),
        "points": progress.earned,
        "judged_points": progress.judged,
        "max_points": sum(part.points for part in entry.exercise.parts),
        "attempts": saved.attempts(entry),
    }


def table(entries: Sequence[Entry], ascii_only: bool = False) -> str:
    """Return the list as text: a line of three for each exercise, and how much of the course is done."""
    progresses = [saved.progress_of(entry) for entry in entries]
    lines = []
    for entry, progress in zip(entries, progresses, strict=True):
        lines.append(f"{entry.id}  {entry.exercise.title}: {progress_words(entry, progress)}")
        lines.append(f"       {', '.join(part.name for part in entry.exercise.parts)}")
        lines.append(f"       {entry.stub.relative_to(entry.root)}")
    if entries:
        lines += ["", bar(progresses, width=_BAR, ascii_only=ascii_only)]
    return "".join(f"{line}\n" for line in lines)


def progress_words(entry: Entry, progress: Progress) -> str:
    """Return the learner's progress in words."""
    after = f"; grade reset {entry.id} brings the stub back" if progress.state == "no file" else ""
    return words(progress) + after
