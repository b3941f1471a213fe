"""Records of gradings that never ran: an invalid submission, or a grading that was lost."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from grader import __version__
from grader.batch.work import Task
from grader.exercise.catalogue import Entry
from grader.exercise.model import Check, Part, check_id
from grader.record.causes import Cause
from grader.record.checks import CheckResult, PartInfo
from grader.record.record import SCHEMA, Environment, ExerciseInfo, PrintedOutput, Record, SubmissionInfo, Tool
from grader.record.statuses import UNJUDGED, Status
from grader.record.verdicts import verdict_of
from grader.text import clean, sha256_of

_INVALID = Cause("invalid_submission", "This cannot be graded", "", "Hand in one plain UTF-8 file per exercise.")
_LOST = Cause("grader_error", "The grader failed", "", "This is not your fault.")


def invalid(entry: Entry, why: str, graded_at: str, where: Environment, parts: Collection[str] = ()) -> Record:
    """Return the record of an unreadable submission; parts that this machine could not have judged stay open."""
    cause = replace(_INVALID, rationale=clean(why, 400))
    return _record(entry, "", "invalid_submission", cause, graded_at, where, parts)


def lost(entry: Entry, task: Task, why: str, where: Environment) -> Record:
    """Return the record of a grading that ended without a result, twice."""
    cause = replace(_LOST, rationale=clean(why, 400))
    return _record(entry, task.text, "grader_error", cause, task.graded_at, where, task.parts)


def _record(
    entry: Entry, text: str, status: Status, cause: Cause, graded_at: str, where: Environment, parts: Collection[str]
) -> Record:
    exercise = entry.exercise

    def result(part: Part, check: Check) -> CheckResult:
        untimed = check.rule.is_timed and where.mode != "gpu"
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

    judged = [part for part in exercise.parts if not parts or part.name in parts]
    checks = tuple(result(part, check) for part, check in exercise.checks() if part in judged)
    return Record(
        schema=SCHEMA,
        tool=Tool("grade", __version__),
        exercise=ExerciseInfo(entry.id, entry.name, exercise.title, exercise.version, entry.sha256()),
        submission=SubmissionInfo("", sha256_of(text) if text else ""),
        env=where,
        seed="",
        command="",
        verdict=verdict_of(checks),
        score=0.0,
        judged_score=sum(check.max_points for check in checks if check.status not in UNJUDGED),
        max_score=sum(check.max_points for check in checks),
        parts=tuple(PartInfo(part.name, part.title) for part in judged),
        checks=checks,
        printed=PrintedOutput(),
        graded_at=graded_at,
        duration_s=0.0,
    )
