"""Find wrong values that come from contraction: a product is not rounded before it is added.

Replay the failing call with every product rounded. If it is right then, it relies on what no GPU computes.
"""

from __future__ import annotations

from dataclasses import replace

from grader.judge.bench import Bench
from grader.judge.clue import Clue, sure
from grader.judge.failure import Failure
from grader.judge.retrials import is_right_only

KIND = "contracted"


def contraction_clues(bench: Bench, failure: Failure) -> list[Clue]:
    """Return the clue of a call that is right only if every product is rounded before it is added."""
    wrong_call = failure.wrong_call
    if wrong_call is None or failure.cause.mismatch is None or wrong_call.recipe.part != bench.part.name:
        return []
    if not (wrong_call.outcome.answer and wrong_call.outcome.answer.contracted):
        return []
    place = wrong_call.outcome.answer.configuration
    with bench.findings.aside():
        if not is_right_only(bench, wrong_call.recipe, place, lambda replay: replace(replay, contracted=False)):
            return []
    return [sure(KIND, "With every product rounded before it is added or subtracted, the answer is right.")]
