"""What this machine can judge."""

from __future__ import annotations

from grader import machine
from grader.exercise.plan import PlannedCheck


def unfit_here(planned: PlannedCheck, *, on_gpu: bool) -> str:
    """Why this machine cannot judge a check, and the command that would mend it; empty where it can."""
    if lacks := machine.why_not_judged(planned.part):
        return lacks
    if planned.unfit:
        return planned.unfit
    if planned.part.on == "gpu" and not planned.check.rule.targets and not on_gpu:
        return "this part runs on a GPU only, and none is used here"
    return ""
