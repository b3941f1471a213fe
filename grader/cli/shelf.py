"""`grade list`, `grade hint`, `grade reset` and `grade solution`: the exercises on the shelf."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from grader.cli import saved
from grader.cli.files import write
from grader.cli.say import say
from grader.errors import UsageError
from grader.exercise.catalogue import Entry, discover, find_root, resolve
from grader.exercise.model import Part
from grader.progress import Standing, bar, words

_LEVELS = 3
_BAR = 20
# How many of the checks that are missing are named.
_MOST_NAMED = 5


def list_exercises(*, as_json: bool) -> None:
    """Print every exercise with its parts and how far the learner is."""
    from grader.cli.run import terminal_of

    entries = discover(find_root())
    if as_json:
        print(json.dumps([_row(entry) for entry in entries], indent=1))
        return
    print(table(entries, terminal_of(sys.stdout)[1]), end="")
    following = next((entry for entry in entries if not saved.standing(entry).is_done), None)
    if following is not None:
        print(f"\nNext: grade watch {following.id}")


def _row(entry: Entry) -> dict[str, object]:
    standing = saved.standing(entry)
    return {
        "id": entry.id,
        "name": entry.name,
        "title": entry.exercise.title,
        "parts": [part.name for part in entry.exercise.parts],
        "path": str(entry.stub),
        "state": standing.state,
        "words": said(entry, standing),
        "points": standing.earned,
        "judged_points": standing.judged,
        "max_points": sum(part.points for part in entry.exercise.parts),
        "attempts": saved.attempts(entry),
    }


def table(entries: Sequence[Entry], ascii_only: bool = False) -> str:
    """Return the list as text: a line of three for each exercise, and how much of the course is done."""
    standings = [saved.standing(entry) for entry in entries]
    lines = []
    for entry, standing in zip(entries, standings, strict=True):
        lines.append(f"{entry.id}  {entry.exercise.title}: {said(entry, standing)}")
        lines.append(f"       {', '.join(part.name for part in entry.exercise.parts)}")
        lines.append(f"       {entry.stub.relative_to(entry.root)}")
    if entries:
        lines += ["", bar(standings, width=_BAR, ascii_only=ascii_only)]
    return "".join(f"{line}\n" for line in lines)


def said(entry: Entry, standing: Standing) -> str:
    """Return the learner's progress in words."""
    after = f"; grade reset {entry.id} brings the stub back" if standing.state == "no file" else ""
    return words(standing) + after


# -- hints -----------------------------------------------------------------------------------------------------------


def hint(wanted: str, part_name: str | None, level: int, *, as_json: bool) -> None:
    """Print the hints of one level, for one part or for all, and the command for the next level."""
    entry, _ = resolve(find_root(), wanted)
    parts = [part for part in entry.exercise.parts if part_name in (None, part.name)]
    if not parts:
        known = ", ".join(part.name for part in entry.exercise.parts)
        raise UsageError(f"a part must be one of {known}, got {part_name!r}")
    following = _next_hint(entry, part_name, level)
    if as_json:
        rows = [{"part": part.name, "title": part.title, "hint": part.hints[level - 1]} for part in parts]
        print(json.dumps({"id": entry.id, "level": level, "of": _LEVELS, "hints": rows, "next": following}, indent=1))
        return
    for part in parts:
        say(_hint_line(part, level), sys.stdout)
    say(f"\nPlainer: {following}" if level < _LEVELS else f"\nThat was the plainest. Next: {following}", sys.stdout)


def _hint_line(part: Part, level: int) -> str:
    return f"{part.name} (hint {level} of {len(part.hints)}): {part.hints[level - 1]}"


def _next_hint(entry: Entry, part_name: str | None, level: int) -> str:
    if level >= _LEVELS:
        return f"grade watch {entry.id}"
    return f"grade hint {entry.id}{f' --part {part_name}' if part_name else ''} --level {level + 1}"


# -- the stub and the solution ---------------------------------------------------------------------------------------


def reset(wanted: str, *, yes: bool) -> int:
    """Restore the stub; what was there is kept beside it, and its place is printed."""
    entry, _ = resolve(find_root(), wanted)
    if _is_untouched(entry):
        print(f"{entry.stub} is the untouched stub already.")
        return 0
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"resetting must be confirmed: grade reset {entry.id} --yes")
        if input(f"Replace {entry.stub} by the untouched stub? Your file is kept as a backup. [y/N] ").lower() != "y":
            print("Nothing was changed.")
            return 0
    backup = restore(entry)
    if backup is not None:
        print(f"Your file: {backup}")
    print(f"Restored:  {entry.stub}\nNext: grade {entry.id}")
    return 0


def _is_untouched(entry: Entry) -> bool:
    return entry.stub.is_file() and saved.text_of(entry.stub) == entry.source("stub.py")


def restore(entry: Entry) -> Path | None:
    """Put the stub where the learner's file was; the place of that file now, None where there was none to keep."""
    stub = entry.source("stub.py")
    if _is_untouched(entry):
        return None
    backup = None
    if entry.stub.exists():
        backup = entry.stub.with_name(f"{entry.stub.name}.{datetime.now():%Y%m%d-%H%M%S}.bak")
        entry.stub.replace(backup)
    entry.stub.parent.mkdir(parents=True, exist_ok=True)
    write(entry.stub, stub)
    return backup


def solution(wanted: str, *, show: bool, copy: bool, as_json: bool) -> int:
    """Give the model solution to who has one of their own: 0, or 1 with what is still open."""
    entry, _ = resolve(find_root(), wanted)
    if not entry.solution.is_file():
        raise UsageError(f"a solution must be here to be shown, got a student bundle without that of {entry.id}")
    standing = saved.standing(entry)
    if as_json:
        rows = [{"id": check.id, "title": check.title, "status": check.status} for check in standing.open]
        place = str(_handed(entry, copy=copy)) if standing.is_done else None
        told = {
            "id": entry.id,
            "state": standing.state,
            "words": said(entry, standing),
            "solution": place,
            "open": rows,
        }
        print(json.dumps(told, indent=1))
    elif standing.is_done:
        print(entry.source("solution.py") if show else _handed(entry, copy=copy), end="" if show else "\n")
    else:
        print(f"The model solution of {entry.id} is for whoever has one: {said(entry, standing)}.", file=sys.stderr)
        for check in standing.open[:_MOST_NAMED]:
            say(f"  open: {check.part}: {check.title}", sys.stderr)
        if len(standing.open) > _MOST_NAMED:
            say(f"  … and {len(standing.open) - _MOST_NAMED} more", sys.stderr)
        print(f"Next: grade {entry.id}", file=sys.stderr)
    return 0 if standing.is_done else 1


def _handed(entry: Entry, *, copy: bool) -> Path:
    """Return the path of the solution: its own place, or a copy of it."""
    if not copy:
        return entry.solution
    target = entry.root / "solutions" / f"{entry.name}.py"
    target.parent.mkdir(exist_ok=True)
    write(target, entry.source("solution.py"))
    return target
