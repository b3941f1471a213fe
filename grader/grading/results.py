"""Write the outcome of a check as the CheckResult of the record."""

from __future__ import annotations

from grader.exercise.plan import PlannedCheck
from grader.judge.failures import NO_CAUSE, Failure
from grader.judge.ruling import Ruling
from grader.record.causes import Cause, Counterexample
from grader.record.checks import CheckResult
from grader.record.statuses import Status
from grader.text import clean


def result_of(
    planned: PlannedCheck,
    failure: Failure | None,
    counterexample: Counterexample | None = None,
    ruling: Ruling | None = None,
    duration_s: float = 0.0,
    *,
    status: Status = "pass",
    reason: str = "",
    share: float = 1.0,
) -> CheckResult:
    """Return the result of a check: the failure's status if there is one, else `status` with its reason.

    share: of the points that a check without a ruling earns if it passes.
    """
    decided: Status = failure.status if failure else status
    return CheckResult(
        id=planned.id,
        part=planned.part.name,
        title=planned.check.title,
        objective=planned.check.objective,
        status=decided,
        points=_earned_points(planned, ruling.share if ruling else share) if decided == "pass" else 0.0,
        max_points=planned.check.points,
        duration_s=round(duration_s, 4),
        reason=failure.cause.rationale if failure else reason,
        notes=(*planned.notes, *(ruling.notes if ruling else ())),
        cause=failure.cause if failure else None,
        counterexample=counterexample,
        evidence=ruling.evidence if ruling else {},
        metrics=ruling.metrics if ruling else {},
        work=ruling.work if ruling else (),
        selection=ruling.selection if ruling else None,
    )


def unjudged(planned: PlannedCheck, *, on_gpu: bool) -> CheckResult:
    """Return the result of a check without cases to run here, with the reason."""
    reason = "no case of this check can run on this machine"
    if planned.check.rule.is_timed:
        untimed = "nothing is timed in this run"
        reason = untimed if on_gpu else "speed is judged on a GPU only, and none is used here"
    return result_of(planned, None, status="skipped_environment", reason=reason)


def grader_failed(fault: Exception) -> Failure:
    """Return the failure for an error in the grader's own code. It costs the learner nothing."""
    said = clean(f"{type(fault).__name__}: {fault}", 400)
    return Failure("grader_error", Cause("grader_error", "The grader failed", said, "This is not your fault."))


def was_run(result: CheckResult) -> bool:
    """Return whether the result shows that the part is there and was called."""
    return result.status not in NO_CAUSE


def _earned_points(planned: PlannedCheck, share: float) -> float:
    return planned.check.points if share == 1 else round(share * planned.check.points, 2)
