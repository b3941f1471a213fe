"""Stores the compile outcomes of a submission for the next grading of the very same file.

Takes and gives CompileOutcome; touches only its own folder below the user's cache folder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.files import write_atomically
from grader.protocol.decode import DecodeError, decode
from grader.protocol.messages import Start
from grader.record import CompiledKernel, Grid

# Of the stored outcomes. Another number makes the entries of older versions unused.
_FORM = "2"
# The suffix of the file of accepted calls that lies beside an entry.
ACCEPTED = ".accepted"
_MOST_ENTRIES = 200


@dataclass(frozen=True)
class CompileOutcome:
    """The outcome of compiling one part for one GPU.

    why: the reason for which kernels are missing, in words. implemented: False where the part had nothing to call.
    gave_up: the compiler did not end in its memory, or at all. is_late: it did not end in time. grids: of the part's
    timed sizes, in the outcome of one GPU.
    """

    part: str
    target: str
    kernels: tuple[CompiledKernel, ...] = ()
    why: str = ""
    implemented: bool = True
    gave_up: bool = False
    is_late: bool = False
    grids: tuple[Grid, ...] = ()


@dataclass(frozen=True)
class _Stored:
    outcomes: tuple[CompileOutcome, ...]


def place_for(start: Start, versions: Sequence[str]) -> Path:
    """Return the cache file of a submission. It depends on the text, the inputs and the versions of all compilers."""
    parts = (_FORM, *versions, start.submission_name, start.submission, start.inputs)
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "grade" / "compiled" / f"{key}.json"


def accepted(place: Path) -> frozenset[str]:
    """Return the names of what the compiler accepted in earlier gradings of the same text; none without the file."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        return frozenset(place.read_text(encoding="utf-8").split())
    return frozenset()


def accept(place: Path, names: frozenset[str]) -> None:
    """Store the names of what the compiler accepted. A file that cannot be written is skipped without an error."""
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, "\n".join(sorted(names)))


def load(place: Path) -> tuple[CompileOutcome, ...]:
    """Return the stored outcomes; none where the file is missing or cannot be read."""
    with contextlib.suppress(OSError, ValueError, RecursionError, DecodeError):
        return decode(_Stored, json.loads(place.read_text(encoding="utf-8"))).outcomes
    return ()


def store(place: Path, outcomes: Sequence[CompileOutcome]) -> None:
    """Store outcomes and drop the oldest entries. A file that cannot be written is skipped without an error."""
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, json.dumps(dataclasses.asdict(_Stored(tuple(outcomes)))))
        entries = sorted(place.parent.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for path in entries[:-_MOST_ENTRIES]:
            path.unlink(missing_ok=True)
            path.with_suffix(ACCEPTED).unlink(missing_ok=True)
