"""What one check has confirmed explains the failure of another only where it can lead to it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
import torch

from grader.diagnosis.cross_check import explaining, may_explain, shown_by
from grader.diagnosis.notebook import Notebook, _by_large_errors
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.exercise.causes import Shown
from grader.judge.clue import Clue, sure
from grader.judge.failure import Failure, WrongCall
from grader.judge.tolerance import ulp
from grader.judge.trial import TriedCase
from grader.judge.truth import Expected, KnownMistake, Truth
from grader.protocol.answers import Returned
from grader.protocol.requests import Recipe
from grader.record.causes import Cause, Difference, Mismatch
from grader.record.statuses import Status
from grader.sandbox.outcome import Finished
from tests.conftest import plan_with

TRUE = torch.linspace(1.0, 2.0, 16, dtype=torch.float64).reshape(2, 8)
EXPECTED = Expected("y", TRUE, torch.float32, 2 * ulp(TRUE, torch.float32))
MISMATCH = Mismatch("y", 1, 16, 1.0, 1.0, (0, 0), "scattered", ())


def wrong_values(got: torch.Tensor) -> Failure:
    raw = got.float().contiguous().view(torch.uint8).numpy().tobytes()
    seen = WrongCall(Recipe("part", {}, 0), Finished(cast("Returned", SimpleNamespace()), (raw,)), (EXPECTED,))
    return Failure("fail", Cause("mismatch", "Wrong values", "y: wrong.", mismatch=MISMATCH), wrong_call=seen)


def with_one(value: float) -> torch.Tensor:
    got = TRUE.clone()
    got[1, 3] = value
    return got


@pytest.mark.parametrize(
    ("got", "shown"),
    [
        (TRUE.half(), Shown.NEAR),
        (with_one(1.6), Shown.NEAR),
        (with_one(-9.0), Shown.FAR),
        (TRUE.flip(1), Shown.FAR),
        (with_one(torch.inf), Shown.NOT_FINITE),
        (torch.full_like(TRUE, torch.nan), Shown.NOT_FINITE),
    ],
)
def test_wrong_values_are_near_or_far_or_not_finite(got: torch.Tensor, shown: Shown) -> None:
    assert shown_by(wrong_values(got)) is shown


@pytest.mark.parametrize(
    ("status", "kind", "shown"),
    [
        ("crash", "crash", Shown.ENDED),
        ("fail", "out_of_bounds", Shown.ACCESS),
        ("fail", "launches", Shown.BESIDE),
        ("policy", "value_read", Shown.BESIDE),
    ],
)
def test_what_shows_no_values_ended_or_lies_beside_them(status: Status, kind: str, shown: Shown) -> None:
    assert shown_by(Failure(status, Cause(kind, "So", "So."))) is shown


@pytest.mark.parametrize("kind", ["exception", "timeout", "size_assumed"])
def test_what_ends_one_call_explains_no_call_that_returns(kind: str) -> None:
    assert [shown for shown in Shown if may_explain(kind, Shown.ENDED, shown)] == [Shown.ENDED]
    assert may_explain("size_assumed", Shown.FAR, Shown.FAR)


@pytest.mark.parametrize("kind", ["low_precision_sum", "rounded_intermediate", "tf32"])
def test_too_few_bits_explain_no_value_that_is_far_off_and_no_access(kind: str) -> None:
    assert may_explain(kind, Shown.NEAR, Shown.NEAR)
    assert not may_explain(kind, Shown.NEAR, Shown.FAR)
    assert not may_explain(kind, Shown.NEAR, Shown.ACCESS)


def test_what_memory_held_explains_values_and_no_access() -> None:
    assert not may_explain("not_cleared", Shown.FAR, Shown.ACCESS)
    assert all(may_explain("not_cleared", Shown.FAR, shown) for shown in (Shown.NEAR, Shown.FAR, Shown.NOT_FINITE))


@pytest.mark.parametrize("kind", ["compiled_differs", "pipelined", "compiled_for_warps"])
@pytest.mark.parametrize("shown", Shown)
def test_what_a_compiler_does_to_one_call_explains_no_other_check(kind: str, shown: Shown) -> None:
    assert not may_explain(kind, Shown.FAR, shown)


def test_launches_explain_what_is_rounded_between_them_and_no_nan() -> None:
    told = [shown for shown in Shown if may_explain("several_launches", Shown.BESIDE, shown)]
    assert told == [Shown.BESIDE, Shown.NEAR]


def test_only_what_is_confirmed_is_left_out_and_a_wrong_address_explains_anything() -> None:
    clues = [sure("tf32"), Clue("tf32", 0.5), sure("wrong_address")]
    assert list(explaining(clues, Shown.NEAR, Shown.FAR)) == clues[1:]
    assert list(explaining(clues, Shown.NEAR, Shown.FAR, ["tf32"])) == clues


@pytest.mark.parametrize(("there", "told"), [(TRUE / 2, True), (TRUE, False)])
def test_a_mistake_that_leaves_the_wrong_call_of_a_check_right_is_not_told_there(
    ex_15: Entry, there: torch.Tensor, told: bool
) -> None:
    confirmed = replace(sure("operand_mixed_up", title="Looks halved"), by_known_mistake=True)
    known = KnownMistake(confirmed.title, "", (there,), confirmed.kind)
    faked = SimpleNamespace(expect=lambda part, recipe: [EXPECTED], known_mistakes=lambda part, recipe: iter([known]))
    notebook = Notebook(ex_15.exercise, cast("Truth", faked))
    one, other = plan_with(ex_15, "vector_add.tail", "vector_add.values").checks
    notebook.checks[one.id].clues, notebook.checks[one.id].shown = [confirmed], Shown.FAR
    notebook.checks[other.id].wrong, notebook.checks[other.id].shown = wrong_values(TRUE / 2).wrong_call, Shown.FAR
    assert notebook.elsewhere(other) == [[confirmed] if told else []]
    # mistakes.py says nothing of altered inputs.
    notebook.checks[one.id].clues = [replace(confirmed, title="Looks contiguous", of_inputs=True)]
    assert [len(clues) for clues in notebook.elsewhere(other)] == [1]


def test_cases_that_fail_as_rounding_makes_them_say_nothing_of_large_errors() -> None:
    shrunk = replace(MISMATCH, first=(Difference((0, 0), 1000.0, 1001.0, 0.1),))
    slight = Failure("fail", Cause("mismatch", "Wrong values", "y: wrong.", mismatch=shrunk))
    assert (slight.is_slight, wrong_values(TRUE).is_slight) == (True, False)
    tried = [TriedCase(Case({"N": n}), True, slightly=n < 3) for n in range(1, 5)]
    assert [one.failed for one in _by_large_errors(tried)] == [False, False, True, True]
