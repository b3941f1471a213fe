"""`grade list`, `grade hint` and `grade reset`: the exercises on the shelf."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path

from grader.catalogue import Entry, discover, find_root, resolve
from grader.cli.files import write
from grader.errors import UsageError


def list_exercises(*, as_json: bool) -> None:
    """Print every exercise with its parts and the state of the learner's file."""
    root = find_root()
    rows = [(entry, _state(entry, root)) for entry in discover(root)]
    if as_json:
        document = [
            {
                "id": entry.id,
                "name": entry.name,
                "title": entry.exercise.title,
                "parts": [part.name for part in entry.exercise.parts],
                "path": str(entry.stub),
                "state": state,
            }
            for entry, state in rows
        ]
        print(json.dumps(document, indent=1))
        return
    for entry, state in rows:
        print(f"{entry.id}  {entry.exercise.title}: {state}")
        print(f"       {', '.join(part.name for part in entry.exercise.parts)}")
        print(f"       {entry.stub.relative_to(root)}")
    if rows:
        print(f"\nGrade one: grade {rows[0][0].id}")


def _state(entry: Entry, root: Path) -> str:
    """How far the learner is, from the file and the latest scorecard."""
    if not entry.stub.is_file():
        return f"no file; grade reset {entry.id} brings the stub back"
    if entry.pristine_stub.is_file() and entry.stub.read_bytes() == entry.pristine_stub.read_bytes():
        return "not started"
    try:
        record = json.loads((root / "scorecards" / f"{entry.id}.json").read_text(encoding="utf-8"))
        points = f"{record['score']:g} of {record['judged_score']:g} points judged"
        graded_this = record["submission"]["path"] == str(entry.stub.resolve())
    except (OSError, ValueError, KeyError, TypeError):
        return "not graded yet"
    return points if graded_this else "not graded yet"


def hint(wanted: str, part_name: str | None, level: int) -> None:
    """Print the hints of one level, for one part or for all."""
    entry, _ = resolve(find_root(), wanted)
    parts = [part for part in entry.exercise.parts if part_name in (None, part.name)]
    if not parts:
        known = ", ".join(part.name for part in entry.exercise.parts)
        raise UsageError(f"a part must be one of {known}, got {part_name!r}")
    for part in parts:
        print(f"{part.name} (hint {level} of {len(part.hints)}): {part.hints[level - 1]}")
    if level < len(parts[0].hints):
        print(f"\nPlainer: grade hint {entry.id}{f' --part {part_name}' if part_name else ''} --level {level + 1}")


def reset(wanted: str, *, yes: bool) -> int:
    """Restore the stub; what was there is kept beside it, and its place is printed."""
    entry, _ = resolve(find_root(), wanted)
    stub = entry.source("stub.py")
    if entry.stub.is_file() and entry.stub.read_text(encoding="utf-8", errors="replace") == stub:
        print(f"{entry.stub} is the untouched stub already.")
        return 0
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"resetting must be confirmed: grade reset {entry.id} --yes")
        if input(f"Replace {entry.stub} by the untouched stub? Your file is kept as a backup. [y/N] ").lower() != "y":
            print("Nothing was changed.")
            return 0
    if entry.stub.exists():
        backup = entry.stub.with_name(f"{entry.stub.name}.{datetime.now():%Y%m%d-%H%M%S}.bak")
        entry.stub.replace(backup)
        print(f"Your file: {backup}")
    entry.stub.parent.mkdir(parents=True, exist_ok=True)
    write(entry.stub, stub)
    print(f"Restored:  {entry.stub}\nNext: grade {entry.id}")
    return 0
