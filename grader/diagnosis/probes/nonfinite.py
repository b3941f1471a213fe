"""Find the line that makes the infinities or the NaN of a wrong result.

Replay a wrong call with notes of the lines that make infinities and NaN. Replay it again with a number in place of what
one line makes: if the result is finite then, that line is the reason. If no line makes any, and there is a number in
memory that nobody wrote, then NaN is loaded from an input that holds it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from torch import Tensor

from grader.judge.bench import Bench
from grader.judge.clue import Clue, sure
from grader.judge.failure import Failure, WrongCall
from grader.judge.retrials import replaying
from grader.protocol.observations import Birth
from grader.protocol.requests import ReplayCall
from grader.sandbox.outcome import Finished, Outcome
from grader.text import clean

# The number of lines that are tried, and the share of the infinite or NaN elements that must become finite.
_MOST_LINES, _FINITE_SHARE = 6, 0.95
# Weights of the line. A known mistake comes first, because the line says where, not why. An overflow is known without
# the line.
_WEIGHT, _OF_PADDING, _OF_OVERFLOW = 0.3, 0.8, 0.05
# Weights of the reasons to load NaN from an input: above a guess of where NaN comes from.
_LOADED = {"wrong_address": 0.5, "past_length": 0.4}
_PADDING_HELP = (
    "A masked lane loads the value of `other`, and later steps may make infinity or NaN of it. Set the result to 0 "
    "there by tl.where, before it is multiplied."
)
_MASKS_HELP = (
    "0 · inf is NaN: a mask that multiplies removes no infinity. Write tl.where(mask, value, 0.0), with the condition "
    "of the mask."
)
_ZERO_TIMES = re.compile(r"-?0 \* -?inf|-?inf \* -?0")
_INFINITIES = ("-inf - -inf", "inf - inf", "-inf + inf", "inf + -inf")
# The kinds of lines that make NaN without an overflow.
_NO_OVERFLOW = ("inf_minus_inf", "zero_divided")
_LONGEST = 60


def nonfinite_clues(bench: Bench, failure: Failure) -> list[Clue]:
    """Return the clue of the first line whose infinities or NaN make the result infinite or NaN."""
    wrong_call = failure.wrong_call
    if (
        wrong_call is None
        or failure.cause.mismatch is None
        or wrong_call.recipe.part != bench.part.name
        or not _not_finite(wrong_call)
    ):
        return []
    with bench.findings.aside():
        replay = replaying(bench, wrong_call.recipe, wrong_call.outcome.answer.configuration)
        noted = replay(lambda usual: replace(usual, births=True))
        births = [*noted.answer.births[:_MOST_LINES]] if isinstance(noted, Finished) else []
        if isinstance(noted, Finished) and not births and wrong_call.outcome.answer.launches:
            return _loaded(bench, wrong_call, replay(lambda usual: replace(usual, unwritten="1.337")))

        def is_finite_without(some: Sequence[Birth]) -> bool:
            return _is_finite(replay(partial(_settling, some)), wrong_call)

        for birth in births:
            settled = replay(partial(_settling, (birth,)))
            if _is_finite(settled, wrong_call):
                of_line = (one for one in births if one.line == birth.line and _ZERO_TIMES.fullmatch(one.words))
                times = next(of_line, None) if settled and bench.gives_right(wrong_call.recipe, settled) else None
                return [_clue_of_mask(times)] if times else _clues(birth)
        if len({birth.line for birth in births}) > 1 and is_finite_without(births):
            for birth in births:
                others = [one for one in births if one.line != birth.line]
                births = others if is_finite_without(others) else births
            return _clues(*births)
    return []


def _loaded(bench: Bench, wrong_call: WrongCall, filled: Outcome | None) -> list[Clue]:
    """Return the clues of a call that loads NaN from its inputs, where no line makes NaN or infinities.

    filled: the call's replay with a number in memory that nobody wrote.
    """
    if not isinstance(filled, Finished):
        return []
    named = zip(bench.part.arguments, bench.truth.inputs(wrong_call.recipe), strict=True)
    read = [(name, one) for name, one in named if isinstance(one, Tensor) and name not in bench.part.mutates]
    holding = [name for name, one in read if bool(one.isnan().any())]
    again = WrongCall(wrong_call.recipe, filled, wrong_call.expected)
    if not holding or _not_finite(again) != _not_finite(wrong_call):
        return []
    evidence = f"No line makes NaN of numbers: the call loads an element of {' or '.join(holding)} that is NaN."
    return [Clue(kind, weight, evidence, firm=True) for kind, weight in _LOADED.items()]


def _clue_of_mask(birth: Birth) -> Clue:
    """Return the clue of a mask that multiplies an infinity: with 0 in place of the product, the call is right."""
    words = f"Line {birth.line} makes NaN: {clean(birth.words, _LONGEST)}. With 0 there, this call is right."
    return sure("masked_by_product", words, help_text=_MASKS_HELP)


def _settling(births: Sequence[Birth], usual: ReplayCall) -> ReplayCall:
    """Return the request with a number in place of what some lines make."""
    return replace(usual, births=True, settled=tuple({birth.line for birth in births}))


def _is_finite(outcome: Outcome | None, wrong_call: WrongCall) -> bool:
    """Return whether wrong elements have become finite in a replay."""
    if not isinstance(outcome, Finished):
        return False
    left = _not_finite(WrongCall(wrong_call.recipe, outcome, wrong_call.expected))
    return left <= (1 - _FINITE_SHARE) * _not_finite(wrong_call)


def _not_finite(wrong_call: WrongCall) -> int:
    """Return the number of elements that are not finite and should be."""
    return sum(
        int((~got.isfinite() & wrong & expected.value.isfinite()).sum())
        for got, wrong, expected in wrong_call.answers()
        if got.is_floating_point()
    )


def _clues(birth: Birth, *others: Birth) -> list[Clue]:
    """Return the clue of the first line, and one against an overflow if that line makes NaN of 0 or of infinities.

    Lines are tried in the order in which they run: an overflow before it would have been found.
    """
    found = _clue(birth, *others)
    return [found] if found.kind not in _NO_OVERFLOW else [found, Clue("overflow", 0.0, refutes=True)]


def _clue(birth: Birth, *others: Birth) -> Clue:
    """Return the clue of the first line. others: further lines whose values must be replaced too."""
    words = clean(birth.words, _LONGEST)
    made = "infinity" if birth.made == "inf" else "NaN"
    lines = sorted({one.line for one in others} - {birth.line})
    also = f" and in line {' and '.join(map(str, lines))}" if lines else ""
    where = f"Line {birth.line} makes {made}: {words}; with a number there{also}, the result is finite."
    if words in _INFINITIES:
        return Clue("inf_minus_inf", _WEIGHT, where)
    if words == "0 / 0":
        return Clue("zero_divided", _WEIGHT, where)
    if birth.padded and not others:
        evidence = f"{where} These values are all in masked lanes of a load."
        return Clue("padding_counted", _OF_PADDING, evidence, help=_PADDING_HELP)
    return Clue("overflow", _OF_OVERFLOW, where)
