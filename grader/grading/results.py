"""Write the ruling on a check as the CheckResult of the record."""

from __future__ import annotations

from dataclasses import replace

from grader.exercise.plan import PlannedCheck
from grader.judge.failure import NO_CAUSE, Failure
from grader.judge.ruling import Ruling
from grader.record.begun import NOT_TIMED_HERE
from grader.record.causes import Cause, Counterexample
from grader.record.checks import CheckResult
from grader.record.statuses import Status
from grader.text import clean


def result_of(
    planned: PlannedCheck, ruling: Ruling, counterexample: Counterexample | None = None, duration_s: float = 0.0
) -> CheckResult:
    """Return the result of a check by the ruling on it."""
    failure = ruling.failure
    status: Status = "inconclusive" if ruling.undecided else "skipped_environment" if ruling.unfit else "pass"
    status = failure.status if failure else status
    return CheckResult(
        id=planned.id,
        part=planned.part.name,
        title=planned.check.title,
        objective=planned.check.objective,
        status=status,
        points=_earned_points(planned, ruling.share) if status == "pass" else 0.0,
        max_points=planned.check.points,
        duration_s=round(duration_s, 4),
        reason=failure.cause.rationale if failure else ruling.undecided or ruling.unfit,
        notes=(*planned.notes, *ruling.notes),
        cause=failure.cause if failure else None,
        counterexample=counterexample,
        evidence=ruling.evidence,
        metrics=ruling.metrics,
        work=ruling.work,
        selection=ruling.selection,
    )


def failed_result(planned: PlannedCheck, failure: Failure, duration_s: float = 0.0) -> CheckResult:
    """Return the result of a check that fails without a ruling of its own."""
    return result_of(planned, Ruling(failure), duration_s=duration_s)


def open_result(planned: PlannedCheck, status: Status, reason: str, duration_s: float = 0.0) -> CheckResult:
    """Return the result of a check that nothing decided. status: one without points."""
    return replace(result_of(planned, Ruling(None), duration_s=duration_s), status=status, points=0.0, reason=reason)


def unjudged(planned: PlannedCheck, *, on_gpu: bool) -> CheckResult:
    """Return the result of a check without cases to run here, with the reason."""
    reason = "no case of this check can run on this machine"
    if planned.check.rule.is_timed:
        untimed = "nothing is timed in this run"
        reason = untimed if on_gpu else NOT_TIMED_HERE
    return open_result(planned, "skipped_environment", reason)


def grader_failed(fault: Exception) -> Failure:
    """Return the failure for an error in the grader's own code. It costs the learner nothing."""
    said = clean(f"{type(fault).__name__}: {fault}", 400)
    return Failure("grader_error", Cause("grader_error", "The grader failed", said, "This is not your fault."))


def was_run(result: CheckResult) -> bool:
    """Return whether the result shows that the part is there and was called."""
    return result.status not in NO_CAUSE


def _earned_points(planned: PlannedCheck, share: float) -> float:
    return planned.check.points if share == 1 else round(share * planned.check.points, 2)
