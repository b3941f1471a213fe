"""Records of gradings that never ran: a submission that cannot be one, or a grading that was lost."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from grader import __version__, machine
from grader.catalogue import Entry
from grader.model.exercise import Check, Part, SpeedBand, check_id
from grader.record import (
    SCHEMA,
    UNJUDGED,
    Cause,
    CheckResult,
    ExerciseInfo,
    PartInfo,
    PrintedOutput,
    Record,
    Status,
    SubmissionInfo,
    Tool,
    clean,
    verdict_of,
)

_INVALID = Cause("invalid_submission", "This cannot be graded", "", "Hand in one plain UTF-8 file per exercise.")
_LOST = Cause("grader_error", "The grader failed", "", "This is not your fault.")


def invalid(entry: Entry, why: str, graded_at: str, *, gpu: bool) -> Record:
    """The record of a submission that could not be read; what this machine could not have judged stays open."""
    return _record(entry, "", "invalid_submission", replace(_INVALID, rationale=clean(why, 400)), graded_at, gpu)


def lost(entry: Entry, text: str, why: str, graded_at: str, *, gpu: bool) -> Record:
    """The record of a grading that ended without a result, twice."""
    return _record(entry, text, "grader_error", replace(_LOST, rationale=clean(why, 400)), graded_at, gpu)


def _record(entry: Entry, text: str, status: Status, cause: Cause, graded_at: str, gpu: bool) -> Record:
    exercise = entry.exercise

    def result(part: Part, check: Check) -> CheckResult:
        untimed = isinstance(check.rule, SpeedBand) and not gpu
        decided: Status = "skipped_environment" if untimed else status
        return CheckResult(
            id=check_id(part, check),
            part=part.name,
            title=check.title,
            objective=check.objective,
            status=decided,
            points=0.0,
            max_points=check.points,
            reason="speed is judged on a GPU only, and none is used here" if untimed else cause.rationale,
            cause=None if untimed else cause,
        )

    checks = tuple(result(part, check) for part, check in exercise.checks())
    return Record(
        schema=SCHEMA,
        tool=Tool("grade", __version__),
        exercise=ExerciseInfo(entry.id, entry.name, exercise.title, exercise.version, entry.sha256()),
        submission=SubmissionInfo("", hashlib.sha256(text.encode()).hexdigest() if text else ""),
        env=machine.environment("gpu" if gpu else "interpret", (), machine.find_gpu() if gpu else None),
        seed="",
        command="",
        verdict=verdict_of(checks),
        score=0.0,
        judged_score=sum(check.max_points for check in checks if check.status not in UNJUDGED),
        max_score=sum(check.max_points for check in checks),
        parts=tuple(PartInfo(part.name, part.title) for part in exercise.parts),
        checks=checks,
        printed=PrintedOutput(),
        graded_at=graded_at,
        duration_s=0.0,
    )
