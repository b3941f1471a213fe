"""List the files of a new course, which `grade init` writes. It writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from grader.exercise.catalogue import Entry

_IGNORED = "__pycache__/\n/scorecards/\n/solutions/\n*.bak\n"


def files(entries: Sequence[Entry], *, with_reference: bool) -> dict[str, bytes]:
    """Return every file's bytes by its path in the course: untouched stubs, and for authors the reference material.

    Raises SpecError if an exercise is incomplete.
    """
    stubs = {f"exercises/{entry.name}.py": entry.source("stub.py").encode() for entry in entries}
    reference = dict(one for entry in entries for one in _reference(entry)) if with_reference else {}
    return {**stubs, **reference, ".gitignore": _IGNORED.encode()}


def _reference(entry: Entry) -> Iterator[tuple[str, bytes]]:
    for path in sorted(entry.folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield f"reference/{entry.name}/{path.relative_to(entry.folder).as_posix()}", path.read_bytes()


def in_the_way(folder: Path) -> tuple[str, ...]:
    """Return the names in a folder that a new course must not be mixed with, sorted.

    Hidden entries and virtual environments are none: a project has them before its first file.
    """
    return tuple(
        sorted(
            path.name
            for path in folder.iterdir()
            if not path.name.startswith(".") and not (path / "pyvenv.cfg").is_file()
        )
    )
