"""Find reads of memory that a call allocates and never writes, or rule them out.

Replay a wrong call with zeros in such memory, which otherwise holds NaN, and compare the answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from grader.judge.bench import Bench
from grader.judge.clue import Clue, sure
from grader.judge.compare import tensor_of
from grader.judge.failure import Failure, WrongCall
from grader.judge.retrials import finds_memory, replaying
from grader.protocol.requests import Unwritten
from grader.sandbox.outcome import Finished, Outcome

# The share of the wrong elements that must depend on the memory.
_DEPENDENT_SHARE = 0.25
# The relative difference of elements up to which two replays are equal.
_EQUAL = 0.01
# The weight of an output that is never stored: above any guess of where its NaN comes from.
_NEVER = 0.75
# The kinds that need NaN of unwritten memory. A remainder that is left out may also make other wrong values.
_BY_UNWRITTEN = ("not_cleared", "not_all_covered", "remainder_skipped")


def unwritten_clues(bench: Bench, failure: Failure) -> list[Clue]:
    """Return the clue of a wrong answer that depends on unwritten memory, or one that rules this out.

    Elements of an output that were never stored are no evidence of a read.
    """
    wrong_call = failure.wrong_call
    if wrong_call is None or failure.cause.mismatch is None or wrong_call.recipe.part != bench.part.name:
        return []
    if not wrong_call.outcome.answer.launches:
        # Without a launch, it returns what an earlier call left.
        return []
    with bench.findings.aside():
        replay = replaying(bench, wrong_call.recipe, wrong_call.outcome.answer.configuration)

    def holding(content: Unwritten) -> list[Tensor]:
        return _wrong_in(replay(lambda usual: replace(usual, unwritten=content)), wrong_call)

    if bench.pair.session.runs_on_gpu and not _are_alike(holding("nan"), wrong_call):
        # Programs that race give other values in every replay, whatever the memory holds.
        return []
    outputs = holding("0")
    for place, (now, (got, wrong, _)) in enumerate(zip(outputs, wrong_call.answers(), strict=False)):
        if not bool(wrong.any()):
            continue
        before = got[wrong]
        differs = (now != before) & ~(now.isnan() & before.isnan())
        is_stored = torch.logical_or(now != 0, ~before.isnan()) if now.is_floating_point() else now != 0
        if _is_enough(differs) and not _is_enough(differs & is_stored) and now.is_floating_point():
            # 0 times NaN, or an element that was never stored and holds what was there.
            infinite = holding("inf")
            is_stored = infinite[place] != math.inf if infinite else is_stored
        if _is_enough(differs & is_stored):
            with bench.findings.aside():
                kept = " The memory is kept from call to call." if finds_memory(bench, wrong_call.recipe) else ""
            words = "With zeros in the memory that the call allocates, the answer changes."
            return [sure("not_cleared", f"{words}{kept}")]
        if bool(wrong.all()) and bool((differs & ~is_stored).all()):
            name = failure.cause.mismatch.output
            return [Clue("zeros", _NEVER, f"No element of {name} was stored: it is what the memory held before.")]
    return _ruled_out(holding, wrong_call, outputs)


def _ruled_out(
    holding: Callable[[Unwritten], list[Tensor]], wrong_call: WrongCall, with_zeros: Sequence[Tensor]
) -> list[Clue]:
    """Return clues that an answer's NaN are the same whatever unwritten memory holds; [] if not, or without NaN.

    holding: makes the wrong elements of a replay. Zeros alone prove nothing: 0 / 0 is NaN too.
    """
    nans = [got[wrong].isnan() for got, wrong, _ in wrong_call.answers()]

    def is_same(outputs: Sequence[Tensor]) -> bool:
        return len(outputs) == len(nans) and all(map(torch.equal, (one.isnan() for one in outputs), nans))

    if any(bool(one.any()) for one in nans) and is_same(with_zeros) and is_same(holding("1.337")):
        # An element that was never stored holds what the memory held.
        kinds = _BY_UNWRITTEN if all(bool(one.all()) for one in nans) else _BY_UNWRITTEN[:2]
        return [Clue(kind, 0.0, refutes=True) for kind in kinds]
    return []


def _are_alike(again: Sequence[Tensor], wrong_call: WrongCall) -> bool:
    """Return whether the wrong elements of another replay are equal, except for the order of additions."""
    return bool(again) and all(
        torch.allclose(now.double(), got[wrong].double(), rtol=_EQUAL, atol=0.0, equal_nan=True)
        for now, (got, wrong, _) in zip(again, wrong_call.answers(), strict=False)
    )


def _wrong_in(other: Outcome | None, wrong_call: WrongCall) -> list[Tensor]:
    """Return the elements of another replay that are wrong in the call, for each output; none without an answer."""
    if not isinstance(other, Finished) or len(other.outputs) != len(wrong_call.expected):
        return []
    answers = zip(other.outputs, wrong_call.answers(), strict=True)
    return [got[wrong] if raw is None else tensor_of(raw, one)[wrong] for raw, (got, wrong, one) in answers]


def _is_enough(elements: Tensor) -> bool:
    return float(elements.double().mean()) >= _DEPENDENT_SHARE
