"""What became of a submission's kernels, kept from one grading of a file to the next grading of the very same file."""

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
from grader.record import CompiledKernel

_MOST_ENTRIES = 200


@dataclass(frozen=True)
class CompileOutcome:
    """What came of compiling one part for one GPU. why: what is missing, in words; implemented: whether there was
    anything to call.
    """

    part: str
    target: str
    kernels: tuple[CompiledKernel, ...] = ()
    why: str = ""
    implemented: bool = True


@dataclass(frozen=True)
class _Kept:
    outcomes: tuple[CompileOutcome, ...]


def place_for(start: Start, versions: Sequence[str]) -> Path:
    """The file for a submission; other inputs, or another version of anything that compiles, have another one."""
    parts = (*versions, start.submission_name, start.submission, start.inputs)
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "grade" / "compiled" / f"{key}.json"


def load(place: Path) -> tuple[CompileOutcome, ...]:
    """What was kept there; nothing, where nothing was or it cannot be read."""
    with contextlib.suppress(OSError, ValueError, RecursionError, DecodeError):
        return decode(_Kept, json.loads(place.read_text(encoding="utf-8"))).outcomes
    return ()


def keep(place: Path, outcomes: Sequence[CompileOutcome]) -> None:
    """Keep these, and drop what was kept longest ago. A file that cannot be written is done without."""
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, json.dumps(dataclasses.asdict(_Kept(tuple(outcomes)))))
        entries = sorted(place.parent.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for path in entries[:-_MOST_ENTRIES]:
            path.unlink(missing_ok=True)
