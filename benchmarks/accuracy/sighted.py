"""Count where the source scan (grader/grading/source_scan.py) sees something, in honest files and in hostile ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from grader.exercise.planted import read
from grader.grading.source_scan import sightings

INTRODUCTION = """\
## The source scan

`grader/grading/source_scan.py` searches a submission's text for code that no kernel needs. It decides nothing: the card
shows its findings to the instructor. It should find nothing in an honest file. It cannot find something in every
hostile file.

"""
# (what they are, where they lie, what the names of the others begin with); a name of a folder may stand for many.
_HONEST = (
    ("solutions and honest variants", "reference/*/solution.py", ""),
    ("solutions and honest variants", "reference/*/fast/*.py", ""),
    ("solutions and honest variants", "reference/*/honest/*.py", ""),
    ("planted mistakes", "reference/*/wrong/*.py", "base_"),
    ("planted mistakes", "reference/*/wrong/*.patch", ""),
    ("honest code that looks odd", "tests/submissions/controls/*.py", ""),
    ("honest code that looks odd", "tests/submissions/timing/control_*.py", ""),
    ("honest code that looks odd", "tests/submissions/guard/ok_*.py", ""),
)
_HOSTILE = (
    ("work that no kernel does, hidden", "tests/submissions/attacks/*.py", ""),
    ("ways out of the process", "tests/submissions/escapes/*.py", ""),
    ("attacks on the clock", "tests/submissions/timing/*.py", ("control_", "honest_")),
)


def sighted(root: Path) -> str:
    """Return the section of the page: for every kind of file, how many there are, and how many have a sighting."""
    lines = ["| files | of them | sighted |", "| --- | --- | --- |", *_rows(root)]
    return INTRODUCTION + "\n".join(lines) + "\n"


def _text(path: Path) -> str:
    return read(path).text if path.suffix == ".patch" else path.read_text(encoding="utf-8", errors="replace")


def _rows(root: Path) -> Iterator[str]:
    counts: dict[str, list[bool]] = {}
    for kind, pattern, others in (*_HONEST, *_HOSTILE):
        for path in sorted(root.glob(pattern)):
            if not others or not path.name.startswith(others):
                seen = bool(sightings(_text(path)))
                counts.setdefault(kind, []).append(seen)
    return (f"| {kind} | {len(seen)} | {sum(seen)} ({sum(seen) / len(seen):.0%}) |" for kind, seen in counts.items())
