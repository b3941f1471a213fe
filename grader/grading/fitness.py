"""Find out whether this machine can judge a check."""

from __future__ import annotations

from grader import machine
from grader.exercise.cases import FAR_APART
from grader.exercise.plan import PlannedCheck, without_crowded
from grader.judge.failure import Failure
from grader.sandbox.pair import Pair

_CROWDED = "others use most of the GPU's memory just now: grade again when they have ended"


def unfit_here(planned: PlannedCheck, *, on_gpu: bool) -> str:
    """Return why this machine cannot judge a check, with the command that would help; "" if it can."""
    if lacks := machine.why_not_judged(planned.part):
        return lacks
    if planned.unfit:
        return planned.unfit
    if planned.part.on == "gpu" and not planned.check.rule.targets and not on_gpu:
        return "this part runs on a GPU only, and none is used here"
    return ""


def takes_much_memory(planned: PlannedCheck) -> bool:
    """Return whether some case takes so much memory that two gradings at once may not fit into one GPU."""
    return any(FAR_APART in one.case.values() for one in planned.cases)


def fitting_now(planned: PlannedCheck, *, on_gpu: bool) -> PlannedCheck:
    """Return a check without the cases that do not fit into the GPU's free memory now.

    The driver is asked only if some case takes much memory.
    """
    asked = on_gpu and takes_much_memory(planned)
    return without_crowded(planned, machine.crowded_values()) if asked else planned


def crowded_out(failure: Failure | None, pair: Pair, *, on_gpu: bool) -> str:
    """Return why a failure for lack of memory is not the submission's fault; "" if it may be, or for other failures.

    Ends the submission's processes first: memory that is still taken then belongs to the grader or to others.
    """
    if not on_gpu or failure is None or failure.status != "oom":
        return ""
    pair.end()
    return _CROWDED if machine.memory_is_taken() else ""


def crowded_out_baseline(fault: Exception) -> str:
    """Return why a baseline's lack of GPU memory is nobody's fault; "" for other faults, or if memory sufficed."""
    return _CROWDED if "out of memory" in str(fault) and machine.memory_is_taken() else ""
