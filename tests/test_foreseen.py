"""Usual mistakes are recognised by the values they lead to, and nothing else is taken for them."""

from __future__ import annotations

from typing import Any, cast

import torch

from grader.judge.bench import Trial
from grader.judge.causes import Failure
from grader.judge.compare import compare, describe
from grader.judge.foreseen import _explains, explained, recognised
from grader.judge.tolerance import ulp
from grader.judge.truth import Expected, Foreseen
from grader.protocol.messages import Recipe
from grader.record import Cause
from grader.sandbox.outcome import TimedOut

TRUTH = torch.linspace(1.0, 2.0, 16, dtype=torch.float64).reshape(2, 8)
OUTPUT = Expected("y", TRUTH, torch.float16, 2 * ulp(TRUTH, torch.float16))
HALVED = Foreseen("Looks as if y is halved", "Do not.", (TRUTH / 2,))


def explains(mistake: torch.Tensor, got: torch.Tensor) -> bool:
    return _explains(mistake, got, compare(got, OUTPUT).wrong, OUTPUT)


def failure(got: torch.Tensor, kind: str = "mismatch") -> Failure:
    mismatch = describe(compare(got, OUTPUT), OUTPUT)
    return Failure("fail", Cause(kind, "Wrong values", "y: all wrong.", "Look.", mismatch=mismatch))


def test_the_mistakes_values_but_for_their_rounding_are_recognised() -> None:
    assert explains(TRUTH / 2, (TRUTH / 2).half())


def test_an_error_that_is_small_beside_the_mistakes_is_not_taken_for_it() -> None:
    assert not explains(TRUTH * 1.004, (TRUTH * 1.003).half())


def test_a_mistake_that_would_spoil_more_than_is_wrong_is_not_named() -> None:
    got = TRUTH.half()
    got[0] /= 2
    assert not explains(TRUTH / 2, got)
    assert explains(torch.cat([TRUTH[:1] / 2, TRUTH[1:]]), got)


def test_nan_and_infinities_are_recognised_where_the_mistake_has_them() -> None:
    got = TRUTH.half()
    got[0] = torch.nan
    assert explains(TRUTH.masked_fill(got.isnan(), torch.nan), got)
    assert not explains(TRUTH / 2, got)


def test_a_recognised_mistake_replaces_what_the_pattern_alone_suggests() -> None:
    cause = explained(failure((TRUTH / 2).half()), [HALVED]).cause
    assert (cause.kind, cause.title, cause.help) == ("likely_mistake", "Looks as if y is halved", "Do not.")
    assert cause.rationale == "y: all wrong."


def test_a_second_mistake_and_unwritten_memory_are_offered_as_well() -> None:
    cause = explained(failure((TRUTH / 2).half(), "unwritten"), [HALVED, HALVED]).cause
    assert cause.help == "Do not. Or: looks as if y is halved. Do not. Or: wrong values. Look."


def test_zeros_are_called_zeros() -> None:
    zeros = failure(torch.zeros_like(TRUTH).half(), "zeros")
    assert explained(zeros, [HALVED]) is zeros


def test_a_call_without_an_answer_looks_like_no_mistake() -> None:
    trial = Trial(Recipe("part", {}, 0), TimedOut(1.0), (OUTPUT,), None, 0.0)
    assert recognised(cast("Any", None), trial) == []
