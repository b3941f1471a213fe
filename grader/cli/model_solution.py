"""Hand out the model solution to a learner whose own file passes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from grader.cli import saved
from grader.cli.files import write
from grader.cli.listing import progress_words
from grader.cli.say import say
from grader.errors import UsageError
from grader.exercise.catalogue import Entry, find_root, resolve

# How many of the checks that are missing are named.
_MOST_NAMED = 5


def solution(exercise: str, *, show: bool, copy: bool, as_json: bool) -> int:
    """Give the model solution to who has one of their own: 0, or 1 with what is still open."""
    entry, _ = resolve(find_root(), exercise)
    if not entry.solution.is_file():
        raise UsageError(f"a solution must be here to be shown, got a student bundle without that of {entry.id}")
    progress = saved.progress_of(entry)
    if as_json:
        rows = [{"id": check.id, "title": check.title, "status": check.status} for check in progress.open]
        place = str(_handed(entry, copy=copy)) if progress.is_done else None
        document = {
            "id": entry.id,
            "state": progress.state,
            "words": progress_words(entry, progress),
            "solution": place,
            "open": rows,
        }
        print(json.dumps(document, indent=1))
    elif progress.is_done:
        print(entry.source("solution.py") if show else _handed(entry, copy=copy), end="" if show else "\n")
    else:
        print(
            f"The model solution of {entry.id} is shown once your own passes: {progress_words(entry, progress)}.",
            file=sys.stderr,
        )
        for check in progress.open[:_MOST_NAMED]:
            say(f"  open: {check.part}: {check.title}", sys.stderr)
        if len(progress.open) > _MOST_NAMED:
            say(f"  … and {len(progress.open) - _MOST_NAMED} more", sys.stderr)
        print(f"Next: grade {entry.id}", file=sys.stderr)
    return 0 if progress.is_done else 1


def _handed(entry: Entry, *, copy: bool) -> Path:
    """Return the path of the solution: its own place, or a copy of it."""
    if not copy:
        return entry.solution
    target = entry.root / "solutions" / f"{entry.name}.py"
    target.parent.mkdir(exist_ok=True)
    write(target, entry.source("solution.py"))
    return target
