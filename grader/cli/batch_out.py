"""Refuse an OUT_DIR that a batch cannot or must not write to, before anything starts."""

from __future__ import annotations

import shlex
from pathlib import Path

from grader.errors import UsageError


def check_folder(out: str) -> None:
    """Raise UsageError for an OUT_DIR that is a file, or that would lie in one."""
    path = Path(out).resolve()
    file = next((one for one in (path, *path.parents) if one.exists()), path)
    if file.exists() and not file.is_dir():
        raise UsageError(f"--out must be a folder, new or of an earlier run, got the file {file}; name another --out")


def check_outside(out: str, source: Path) -> None:
    """Raise UsageError for an OUT_DIR in the folder of submissions: the next run would take it for a student.

    source: resolved. An archive holds only submissions, and no OUT_DIR.
    """
    if source.is_dir() and Path(out).resolve().is_relative_to(source):
        beside = shlex.quote(str(source.parent / f"{source.name}-graded"))
        rule = "--out must lie outside the folder of submissions"
        raise UsageError(f"{rule}, got {out} in {source}; write --out {beside}")
