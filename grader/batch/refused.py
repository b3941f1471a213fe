"""Records of gradings that never ran: an invalid submission, or a grading that was lost."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from grader.batch.work import Task
from grader.exercise.catalogue import Entry
from grader.exercise.model import Check, Part, check_id
from grader.record.begun import NOT_TIMED_HERE, begun_record
from grader.record.causes import Cause
from grader.record.checks import CheckResult, PartInfo
from grader.record.record import Environment, Record, SubmissionInfo
from grader.record.statuses import Status
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
            reason=NOT_TIMED_HERE if untimed else cause.rationale,
            cause=None if untimed else cause,
        )

    judged = [part for part in entry.exercise.parts if not parts or part.name in parts]
    checks = tuple(result(part, check) for part, check in entry.exercise.checks() if part in judged)
    infos = tuple(PartInfo(part.name, part.title) for part in judged)
    submission = SubmissionInfo("", sha256_of(text) if text else "")
    return begun_record(entry, submission, where, infos, checks, graded_at)
