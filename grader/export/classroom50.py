"""Render Classroom 50's result.json and release-body.md (docs/exports.md#classroom-50)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grader.errors import GradeError, UsageError
from grader.export import markdown, messages
from grader.export.document import json_of
from grader.export.formats import Format
from grader.record.checks import CheckResult
from grader.record.record import Record
from grader.record.statuses import UNJUDGED
from grader.report import view

SCHEMA = "classroom50/result/v1"
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@dataclass(frozen=True)
class RunnerEnvironment:
    """The submission's place, from the runner's environment variables. Raises UsageError for empty ones."""

    classroom: str
    assignment: str
    submission: str
    commit: str
    release: str
    review: str

    def __post_init__(self) -> None:
        for name in ("classroom", "assignment", "commit", "release", "review"):
            if not getattr(self, name):
                raise UsageError(f"the runner's {name} must not be empty, got ''")
        if not self.submission.startswith("submit/"):
            raise UsageError(f"SUBMISSION_TAG must start with submit/, got {self.submission!r}")


def files(record: Record, place: RunnerEnvironment) -> dict[str, str]:
    """Return result.json and the text that the student reads.

    Raises GradeError if the grader itself failed: the platform then keeps its earlier result.
    """
    if any(check.status == "grader_error" for check in record.checks):
        raise GradeError(
            "the grader failed in a check, so nothing is published; the submission is not the cause, run it again"
        )
    return {"result.json": render(record, place), "release-body.md": markdown.summary(record)}


def render(record: Record, place: RunnerEnvironment) -> str:
    """Return the document. Checks that were not judged are left out of rows and sums."""
    judged = [check for check in record.checks if check.status not in UNJUDGED]
    factor = _factor(judged)
    tests = [_test(check, record, factor) for check in judged]
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "classroom": place.classroom,
        "assignment": place.assignment,
        "submission": place.submission,
        "commit": place.commit,
        "release": place.release,
        "review": place.review,
        "datetime": _instant(record),
        "score": sum(test["score"] for test in tests),
        "max-score": sum(test["max-score"] for test in tests),
        "tests": tests,
    }
    return json_of(document)


def _test(check: CheckResult, record: Record, factor: int) -> dict[str, Any]:
    test: dict[str, Any] = {
        "test-name": view.line(check.id, 100),
        "passed": check.status == "pass",
        "score": round(check.points * factor),
        "max-score": round(check.max_points * factor),
    }
    if check.status != "pass":
        test["message"] = messages.short(check)
    if replay := messages.replay(check, record):
        test["replay"] = replay
    return test


def _factor(checks: list[CheckResult]) -> int:
    """Return the factor that makes all points whole numbers. Points have at most two decimals."""
    values = [value for check in checks for value in (check.points, check.max_points)]
    return next((factor for factor in (1, 10, 100) if all(_whole(value * factor) for value in values)), 100)


def _whole(value: float) -> bool:
    return abs(value - round(value)) < 1e-6


def _instant(record: Record) -> str:
    """Return the time of the submission, to the second, in UTC. Raises UsageError."""
    for instant in (record.submitted_at, record.graded_at):
        if _INSTANT.fullmatch(instant):
            return instant
    raise UsageError(f"a record's times must look like 2026-11-02T08:15:00Z, got {record.graded_at!r}")


def _place(environment: Mapping[str, str]) -> RunnerEnvironment:
    """Return what the runner's environment variables say of the submission. Raises UsageError."""
    names = ("CLASSROOM", "ASSIGNMENT", "SUBMISSION_TAG", "COMMIT_URL", "RELEASE_URL")
    if missing := [name for name in names if not environment.get(name)]:
        raise UsageError(f"classroom50 needs the runner's environment, got no {', '.join(missing)}")
    classroom, assignment, submission, commit, release = (environment[name] for name in names)
    review = environment.get("REVIEW_URL") or commit
    return RunnerEnvironment(classroom, assignment, submission, commit, release, review)


FORMAT = Format(
    "classroom50",
    "Classroom 50's result.json and release-body.md",
    files=lambda record, environment: files(record, _place(environment)),
)
