"""The list of exercises with the learner's progress, as a table and as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from grader.cli import saved
from grader.cli.next_step import next_line, progress_words
from grader.cli.terminal import terminal_of
from grader.exercise.catalogue import Entry, discover, find_root
from grader.progress import bar

_BAR = 20


def list_exercises(*, as_json: bool) -> None:
    """Print every exercise with its parts and the learner's progress."""
    entries = discover(find_root())
    if as_json:
        print(json.dumps([_row(entry) for entry in entries], indent=1))
        return
    print(exercise_table(entries, terminal_of(sys.stdout)[1]), end="")
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


def exercise_table(entries: Sequence[Entry], ascii_only: bool = False) -> str:
    """Return the list as text: three lines for each exercise, and the progress with the course."""
    progresses = [saved.progress_of(entry) for entry in entries]
    lines = []
    for entry, progress in zip(entries, progresses, strict=True):
        lines.append(f"{entry.id}  {entry.exercise.title}: {progress_words(entry, progress)}")
        lines.append(f"       {', '.join(part.name for part in entry.exercise.parts)}")
        # A course may lie elsewhere, and then its relative paths lead nowhere.
        near = entry.stub.is_relative_to(Path.cwd())
        lines.append(f"       {entry.stub.relative_to(Path.cwd()) if near else entry.stub}")
    if entries:
        lines += ["", bar(progresses, width=_BAR, ascii_only=ascii_only)]
    return "".join(f"{line}\n" for line in lines)
