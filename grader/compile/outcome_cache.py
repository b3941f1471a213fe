"""Store the compile outcomes of a submission for the next grading of the very same file.

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
from typing import Literal

from grader.files import write_atomically
from grader.protocol.answers import Form
from grader.protocol.decode import DecodeError, decode
from grader.protocol.requests import Recipe, Start
from grader.protocol.trace import TraceNote
from grader.record.kernels import CompiledKernel
from grader.record.launches import Grid

# Of the stored outcomes. Another number makes the entries of older versions unused.
_FORM = "4"
# The suffix of the file of accepted calls that lies beside an entry.
ACCEPTED = ".accepted"
_MOST_ENTRIES = 200


# compiled: the compiler has said what it makes of each kernel, an error or not. recorded: the call was only recorded.
# no_kernel: the call launched none. cut: it launched more than are listed.
# raised: the launch code raised, or gave no valid answer. late: not done in time.
# gave_up: a process ended, or needed too much memory. unrecorded: the call cannot be written down as data.
# not_implemented: there is nothing to call. unloadable: the file does not load.
# not_asked: there is no case, or the compiler does not know the GPU.
CompileState = Literal[
    "compiled",
    "recorded",
    "no_kernel",
    "cut",
    "raised",
    "late",
    "gave_up",
    "unrecorded",
    "not_implemented",
    "unloadable",
    "not_asked",
    "grader_error",
]
# The submission is not to blame: a check that needs such an outcome stays open.
UNKNOWN: tuple[CompileState, ...] = ("late", "unrecorded", "not_asked", "grader_error")
# The next grading would find the same.
_LASTING: tuple[CompileState, ...] = ("compiled", "recorded", "not_implemented")


@dataclass(frozen=True)
class RecordedForm:
    """Describe what a recorded call returns, and which memory its launches get.

    recipe: of its inputs. outputs: what it returned. owners: for each output, the argument in whose memory it lies, or
    "". unread: tensor arguments that no launch gets, nor a copy of them. unwritten: places of outputs whose memory no
    launch gets, nor anything that was copied to them. beside: operators that computed beside the launches.
    """

    recipe: Recipe
    outputs: tuple[Form, ...]
    owners: tuple[str, ...]
    unread: tuple[str, ...]
    unwritten: tuple[int, ...]
    beside: tuple[TraceNote, ...] = ()


@dataclass(frozen=True)
class CompileOutcome:
    """The outcome of compiling one call of a part for one GPU.

    why: says in words why kernels are missing. dtype: of the call's case. case: in words, where it is not the one that
    the record shows. form: of the call, where it is to be compared with the contract. grids: of the
    part's timed sizes, in the outcome of one GPU.
    """

    part: str
    target: str
    kernels: tuple[CompiledKernel, ...] = ()
    state: CompileState = "compiled"
    why: str = ""
    dtype: str = ""
    case: str = ""
    form: RecordedForm | None = None
    grids: tuple[Grid, ...] = ()

    @property
    def lasts(self) -> bool:
        """The next grading of the same text would find the same."""
        return self.state in _LASTING


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
