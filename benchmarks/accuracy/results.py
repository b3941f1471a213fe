"""Store the results of all graded files: as JSON, one line each in the journal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Kind = Literal["mutant", "honest", "planted"]


@dataclass(frozen=True)
class Result:
    """One grading. `status` and `check` are those of the first check that failed; "pass" and "" where none did.

    where: the mode of the machine that judged it, "interpret" or "gpu". key: a hash of what was graded against what.
    parts: those that were judged. fixed: whether the protocol with one shape caught the mutant, None where it does not
    apply. status "discarded": the file does not even load; "not_run": no case of the plan runs the line. claim: the
    check that a planted mistake names.
    """

    kind: Kind
    key: str
    exercise: str
    status: str
    check: str = ""
    why: str = ""
    seconds: float = 0.0
    operator: str = ""
    function: str = ""
    line: int = 0
    before: str = ""
    after: str = ""
    parts: tuple[str, ...] = ()
    fixed: bool | None = None
    file: str = ""
    claim: str = ""
    seed: int = 0
    where: str = "interpret"

    @property
    def change(self) -> str:
        """Return a name of a change that does not depend on its line."""
        return f"{self.exercise} {self.function}: {self.before} -> {self.after}"

    @property
    def caught(self) -> bool:
        """Whether the grade refused the file."""
        return self.status not in ("pass", "not_run", "discarded", "grader_error")


@dataclass
class Journal:
    """The results so far, in a file with a line for each: a run that was stopped goes on where it was."""

    path: Path
    known: dict[str, Result] = field(default_factory=dict)

    @classmethod
    def opened(cls, path: Path) -> Journal:
        """Return the journal at that path, with its entries."""
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        results = [decoded(json.loads(line)) for line in lines]
        return cls(path, {one.key: one for one in results})

    def add(self, result: Result) -> None:
        """Keep one more result."""
        self.known[result.key] = result
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(result)) + "\n")


def key_of(kind: Kind, where: str, exercise_hash: str, text: str, seed: int) -> str:
    """Return the hash of a grading: its text, mode, exercise and seed."""
    return hashlib.sha256("\0".join((kind, where, exercise_hash, text, str(seed))).encode()).hexdigest()[:24]


def decoded(fields: dict[str, Any]) -> Result:
    """Return a result from its JSON form."""
    return Result(**{**fields, "parts": tuple(fields.get("parts", ()))})


def read(path: Path) -> tuple[Result, ...]:
    """Return the results of a finished run."""
    return tuple(decoded(one) for one in json.loads(path.read_text(encoding="utf-8"))["results"])


def write(path: Path, results: Sequence[Result]) -> None:
    """Keep the results of a finished run."""
    document = {"schema": "grade/accuracy/v1", "results": [asdict(one) for one in results]}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
