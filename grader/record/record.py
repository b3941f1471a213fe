"""Define the record as a whole, and its JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Literal

from grader.protocol.decode import DecodeError, decode
from grader.record.checks import CheckResult, PartInfo
from grader.record.statuses import Status
from grader.text import as_json
from grader.timeline import Stretch

Schema = Literal["grade/result/v1"]


SCHEMA: Schema = "grade/result/v1"


@dataclass(frozen=True)
class Tool:
    """The program that graded."""

    name: str
    version: str


@dataclass(frozen=True)
class ExerciseInfo:
    """The exercise of a grading: id ("ex_15"), name ("ex_15_triton_basics"), and a hash of spec, inputs and oracle."""

    id: str
    name: str
    title: str
    version: str
    spec_sha256: str


@dataclass(frozen=True)
class SubmissionInfo:
    """The file that was graded: absolute path, and SHA-256 of its text in UTF-8."""

    path: str
    sha256: str
    student: str = ""


@dataclass(frozen=True)
class Environment:
    """The machine of a grading.

    mode: "gpu" (compiled kernels) or "interpret" (TRITON_INTERPRET=1 on the CPU).
    """

    mode: Literal["gpu", "interpret"]
    gpu: str
    driver: str
    capability: str
    python: str
    torch: str
    triton: str
    numpy: str
    isolation: tuple[str, ...]


@dataclass(frozen=True)
class PrintedOutput:
    """The submission's printed text, both ends of it; `cut_bytes` counts the bytes left out in between."""

    text: str = ""
    total_bytes: int = 0
    cut_bytes: int = 0


@dataclass(frozen=True)
class Sighting:
    """A place in a submission's text that a person may want to look at (grader.grading.source_scan).

    It decides nothing.
    """

    line: int
    what: str


@dataclass(frozen=True)
class Feedback:
    """A person's comment on a submission, and the points that they give instead of those earned (None: no points).

    part: '' for the whole exercise.
    """

    part: str
    comment: str
    author: str
    points: float | None = None


@dataclass(frozen=True)
class Record:
    """One grading of one submission against one exercise."""

    schema: Schema
    tool: Tool
    exercise: ExerciseInfo
    submission: SubmissionInfo
    env: Environment
    seed: str
    command: str
    verdict: Status
    score: float
    judged_score: float
    max_score: float
    parts: tuple[PartInfo, ...]
    checks: tuple[CheckResult, ...]
    printed: PrintedOutput
    graded_at: str
    duration_s: float
    submitted_at: str = ""
    sightings: tuple[Sighting, ...] = ()
    feedback: tuple[Feedback, ...] = ()
    timeline: tuple[Stretch, ...] = ()


def to_json(record: Record) -> str:
    """Return the record as a JSON document. Raises ValueError if a number is not finite."""
    return as_json(dataclasses.asdict(record))


def from_json(text: str) -> Record:
    """Return the record in a JSON document. Raises ValueError (DecodeError) that names the wrong field."""
    try:
        return decode(Record, json.loads(text), "record")
    except RecursionError:
        raise DecodeError("record must not be nested without end") from None
