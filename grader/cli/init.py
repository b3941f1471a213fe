"""`grade init`: write a new course. Changes no existing file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from grader.cli.next_step import next_line
from grader.errors import UsageError
from grader.exercise.catalogue import course_around, discover, handed_out
from grader.phrases import listed
from grader.release import course

_NAMED = 3


def init(target: str, *, with_reference: bool) -> int:
    """Write the exercises into an empty or a new folder; return the exit code."""
    folder = Path(target)
    files = course.files(handed_out(), with_reference=with_reference)
    _refuse_what_is_there(folder, files)
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.startswith(".") and path.exists():
            # The project's own.
            continue
        with path.open("xb") as file:
            file.write(data)
    entries = discover(folder.resolve())
    print(f"{folder.resolve()}: {', '.join(entry.id for entry in entries)}")
    if target != ".":
        print(f"First: cd {target}")
    print(next_line(entries))
    return 0


def _refuse_what_is_there(folder: Path, files: Iterable[str]) -> None:
    """Raise UsageError if a new course would meet files or another course."""
    place = folder.resolve()
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"a new course must be a folder, got the file {folder}")
    there = [name for name in files if (folder / name).exists() and not name.startswith(".")]
    if there:
        raise UsageError(
            f"a new course must not overwrite files, got {listed(there, _NAMED)} in {place}; "
            "grade reset restores one stub"
        )
    around = course_around(place)
    if around is not None:
        raise UsageError(f"a new course must not lie inside another, got {place} inside {around}")
    others = course.in_the_way(folder) if folder.is_dir() else ()
    if others:
        raise UsageError(
            f"a new course must start in an empty folder, got {listed(others, _NAMED)} in {place}; "
            "grade init NAME makes a new folder"
        )
