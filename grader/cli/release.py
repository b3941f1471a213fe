"""`grade release`: writes the student bundle."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import grader
from grader.errors import UsageError
from grader.exercise.catalogue import Entry, discover, find_root, resolve
from grader.release import bundle


def release(target: str, exercises: tuple[str, ...]) -> int:
    """Write the bundle into an empty or a new folder; return the exit code."""
    folder, entries = Path(target), _entries(find_root(), exercises)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"a bundle's folder must be new or empty, got {folder}")
    held = bundle.files(entries, Path(grader.__file__).resolve().parent, grader.__version__)
    for name, data in held.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        # The same bytes and the same rights for every umask.
        os.chmod(path, 0o644)
    listed = ", ".join(entry.id for entry in entries)
    print(f"{folder}: {listed}; every file is in {bundle.MANIFEST}, no answer among them")
    print(f"Try it: cd {folder} && python -m grader list", file=sys.stderr)
    return 0


def _entries(root: Path, exercises: tuple[str, ...]) -> tuple[Entry, ...]:
    """Return the named exercises ("ex_15,ex_18", or one by one), or all, in the order of `grade list`."""
    names = [name.strip() for text in exercises for name in text.split(",") if name.strip()]
    if not names:
        return discover(root)
    requested = {resolve(root, name)[0].name for name in names}
    return tuple(entry for entry in discover(root) if entry.name in requested)
