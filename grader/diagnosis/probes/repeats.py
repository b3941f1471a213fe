"""Repeat calls: of a part that takes too long, or of a wrong call whose answer may depend on earlier calls.

Take a bench and return clues.
"""

from __future__ import annotations

from grader.diagnosis.gathering import OVERLAP
from grader.exercise.cases import QUICK_VOLUME
from grader.judge.bench import Bench
from grader.judge.clue import Clue, sure
from grader.judge.failure import Failure, WrongCall
from grader.protocol.requests import Recipe
from grader.sandbox.outcome import Finished

# Two sums of the same numbers differ by at most this share: by rounding.
_ROUNDING = 1e-2


def repeated_work(bench: Bench) -> list[Clue]:
    """Return the clue of a part that takes too long, if a call that ended loads and stores its bytes repeatedly.

    Programs that meet in atomics divide one result among them: they load and store it repeatedly on purpose.
    """
    ended = [one for one in bench.findings.tried if not one.failed and one.case.volume <= QUICK_VOLUME]
    if not ended:
        return []
    largest = max(ended, key=lambda one: one.case.volume)
    with bench.findings.aside():
        outcome = bench.repeat(Recipe(bench.part.name, dict(largest.case), largest.seed)).outcome
    launches = outcome.answer.launches if isinstance(outcome, Finished) else ()
    alone = (one for one in launches if not (one.footprint and any(each.updated for each in one.footprint.tensors)))
    for traffic in (one.traffic for one in alone if one.traffic is not None and one.traffic.complete):
        loaded, stored = traffic.unique_loaded_bytes, traffic.unique_stored_bytes
        if loaded and stored:
            times = min(traffic.loaded_bytes / loaded, traffic.stored_bytes / stored)
            if times >= OVERLAP:
                evidence = f"each byte is loaded and stored {times:.1f} times."
                return [sure("done_again", f"For {largest.case.words()}, which ended in time, {evidence}")]
    return []


def again(bench: Bench, failure: Failure) -> list[Clue]:
    """Repeat the failing call twice. Return clues if the answers show what an earlier call left in memory."""
    wrong_call = failure.wrong_call
    if wrong_call is None or failure.cause.mismatch is None or wrong_call.recipe.part != bench.part.name:
        return []
    repeats: list[WrongCall] = []
    for _ in range(2):
        # Other calls may have been made since the failing one: the second repeat follows the first.
        with bench.findings.aside():
            repeated = bench.repeat(wrong_call.recipe).failure
        before = repeats[-1] if repeats else wrong_call
        if (
            repeated is None
            or repeated.wrong_call is None
            or repeated.wrong_call.outcome.outputs == before.outcome.outputs
        ):
            break
        if _adds_up(before, repeated.wrong_call):
            return [sure("not_cleared", "A second call returns the sum of this answer and the right one.")]
        repeats.append(repeated.wrong_call)
    if not repeats or not bench.part.deterministic:
        return []
    evidence = "A second call on the same inputs returns another answer."
    return [Clue("not_cleared", 0.5, evidence), Clue("race", 0.4, evidence), Clue("remembered_input", 0.3, evidence)]


def _adds_up(first: WrongCall, second: WrongCall) -> bool:
    """Return whether the second of two equal calls returns the first answer plus the right one, in a wrong output."""
    for (got, wrong, expected), (later, _, _) in zip(first.answers(), second.answers(), strict=False):
        if bool(wrong.any()):
            grown = (later.double() - got.double() - expected.value).abs()
            size = expected.value.abs() + got.double().abs()
            if bool((grown <= _ROUNDING * size.clamp(min=1e-30)).all()):
                return True
    return False
