"""Restore an exercise's original stub. The learner's file is kept as a backup."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path

from grader.cli import saved
from grader.cli.files import write
from grader.errors import UsageError
from grader.exercise.catalogue import Entry, find_root, resolve


def reset(exercise: str, *, yes: bool) -> int:
    """Restore the stub; keep the old file next to it as a backup, and print the backup's path."""
    entry, _ = resolve(find_root(), exercise)
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
    """Restore the stub. Return the path of the backup; None if there was no file to keep."""
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
