"""Explain the failure of a replay by calls that are made again, each in another way.

Takes a bench, a failed trial and its failure; gives the failure with what the other calls tell of its cause.
"""

from __future__ import annotations

from dataclasses import replace

from grader.exercise.plan import PlannedCase
from grader.judge.bench import Bench
from grader.judge.clue import Clue
from grader.judge.configurations import is_due_to_configuration, name_configuration_of
from grader.judge.failure import Failure
from grader.judge.kernel_policy import LEFT_OVER, policy_failure
from grader.judge.retrials import interpreted_trial, remembered, right_otherwise
from grader.judge.trial import Trial
from grader.sandbox.outcome import Finished

# Kinds of failures that only a replay sees; the same call may look right in the submission's own process.
_SEEN_IN_REPLAYS = ("out_of_bounds", "race", "undefined", "input_changed")


def explain_wrong_replay(
    bench: Bench, one: PlannedCase, trial: Trial, failure: Failure, *, briefly: bool = False
) -> Failure:
    """Return the failure of a replay, or its cause.

    The call is repeated without memory of earlier calls, and in the submission's own process. If it is right there,
    something besides the kernels does part of the work, or an autotuner takes another configuration there. On a GPU,
    kernels that are right in the interpreter by themselves do all of the work: they race, and only the replay met the
    race. briefly: as in retrials.right_otherwise.
    """
    replayed = bench.part.is_replayed and not trial.unrecordable and isinstance(trial.outcome, Finished)
    doubted = replayed and failure.status == "fail" and failure.cause.kind not in _SEEN_IN_REPLAYS
    how = right_otherwise(bench, trial, briefly=briefly) if doubted else ""
    if how == "without memory":
        seen = "The same call is right without memory from earlier calls."
        return replace(failure, clues=(*failure.clues, Clue(LEFT_OVER, 0.7, seen)))
    if not how or _is_right_interpreted(bench, one):
        return failure
    if is_due_to_configuration(bench, one, trial):
        return name_configuration_of(trial, failure)
    found = policy_failure(
        "outside_kernels",
        "Your kernels do not do all of the work",
        f"For {one.case.words()} the function returns the right values. Its kernels alone, launched again on other "
        f"inputs, do not: {failure.cause.rationale}",
    )
    found = replace(found, clues=remembered(bench, trial.recipe, trial.outcome))
    bench.findings.outside_kernels.append(found)
    return found


def _is_right_interpreted(bench: Bench, one: PlannedCase) -> bool:
    trial = interpreted_trial(bench, one)
    return trial is not None and trial.failure is None and not trial.unrecordable
