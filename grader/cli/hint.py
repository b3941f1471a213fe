"""Hints for the parts of an exercise, in three levels."""

from __future__ import annotations

import json
import sys

from grader.cli import saved
from grader.cli.say import say
from grader.exercise.catalogue import Entry, find_root, resolve
from grader.exercise.model import Part

_LEVELS = 3


def hint(exercise: str | None, part_name: str | None, level: int, *, as_json: bool) -> None:
    """Print the hints of one level, for one part or for all, and the command for the next level.

    exercise: None means the next part of the learner's current exercise.
    """
    if exercise is not None:
        entry, _ = resolve(find_root(), exercise)
    else:
        entry = saved.current(find_root())
        following = saved.progress_of(entry).next_part
        part_name = part_name or (following.name if following is not None else None)
    parts = entry.named_parts([] if part_name is None else [part_name])
    plainer = _next_hint(entry, part_name, level)
    if as_json:
        rows = [{"part": part.name, "title": part.title, "hint": part.hints[level - 1]} for part in parts]
        print(json.dumps({"id": entry.id, "level": level, "of": _LEVELS, "hints": rows, "next": plainer}, indent=1))
        return
    for part in parts:
        say(_hint_line(part, level), sys.stdout)
    say(f"\nPlainer: {plainer}" if level < _LEVELS else f"\nThat was the plainest. Next: {plainer}", sys.stdout)


def _hint_line(part: Part, level: int) -> str:
    return f"{part.name} (hint {level} of {len(part.hints)}): {part.hints[level - 1]}"


def _next_hint(entry: Entry, part_name: str | None, level: int) -> str:
    if level >= _LEVELS:
        return f"grade watch {entry.id}"
    return f"grade hint {entry.id}{f' --part {part_name}' if part_name else ''} --level {level + 1}"
