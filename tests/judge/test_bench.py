"""Calls on a bench: what is asked for between two of them changes nothing in what comes of the second."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from grader.exercise.cases import Case, Cases
from grader.exercise.catalogue import Entry
from grader.exercise.plan import PlannedCase
from grader.exercise.rules import Fresh
from grader.judge.examination import _is_answer_to
from grader.judge.retrials import is_right_only, remembered
from grader.judge.rules.fresh import decide, judge_case
from grader.judge.trial import CallRequest
from grader.judge.truth import Expected
from grader.protocol.answers import Form
from grader.protocol.requests import Wanted
from grader.sandbox.outcome import Finished
from grader.sandbox.server import ForkServer
from tests.benches import VECTOR_ADD, bench_of

LENGTHS = (100, 300, 500, 700, 900, 1100)


def test_a_call_that_is_made_again_in_between_leaves_later_ones_right_and_their_memory_their_own(
    server: ForkServer, ex_15: Entry
) -> None:
    with bench_of(server, ex_15, ex_15.solution) as bench:
        cases = [bench.part.checks[1].cases.space.case(N=length) for length in LENGTHS]  # type: ignore[union-attr]
        trials = []
        for trial in bench.tries([CallRequest(bench.part, case, 1) for case in cases]):
            trials.append(trial)
            if len(trials) == 2:
                # As after a wrong answer: all memory is told anew.
                bench.pair.skip()
                assert bench.repeat(trial.recipe).failure is None
        assert [trial.recipe.case["N"] for trial in trials] == [*LENGTHS]
        assert all(trial.failure is None for trial in trials)
        assert [form.alias for trial in trials for form in _forms(trial.outcome)] == [""] * len(LENGTHS)
        # None of them counts as an earlier result of later calls that have memory of their own.
        assert judge_case(bench, PlannedCase(cases[0], 1), more=13) is None


def test_a_call_that_is_recorded_again_and_replayed_alone_leaves_later_ones_right(
    server: ForkServer, ex_15: Entry
) -> None:
    with bench_of(server, ex_15, ex_15.solution) as bench:
        cases = [bench.part.checks[1].cases.space.case(N=length) for length in LENGTHS]  # type: ignore[union-attr]
        assert all(bench.try_case(case, 1).failure is None for case in reversed(cases))
        # As for the cause of a failure: all memory is recorded anew, and no replayer keeps it.
        recipe = bench.true_recipe(cases[0], 1)
        assert not is_right_only(bench, recipe, -1, lambda replay: replay)
        assert judge_case(bench, PlannedCase(cases[-1], 1), more=13) is None


# A few buffers, all made in the first call, of which each call returns another one.
IN_TURN = (
    VECTOR_ADD.replace("    z = torch.empty_like(x)\n", "    z = in_turn(x)\n")
    + """
KEPT = []

def in_turn(x):
    if not KEPT:
        KEPT.extend(torch.empty_like(x) for _ in range(40))
    KEPT.append(KEPT.pop(0))
    return KEPT[0]
"""
)


def test_a_result_in_memory_that_an_earlier_call_kept_is_no_new_memory(server: ForkServer, ex_15: Entry) -> None:
    with bench_of(server, ex_15, IN_TURN) as bench:
        case = bench.part.checks[1].cases.space.case(N=100)  # type: ignore[union-attr]
        failure = judge_case(bench, PlannedCase(case, 1), more=3)
    assert failure is not None
    assert (failure.cause.kind, "an earlier call kept" in failure.cause.rationale) == ("alias", True)


def _forms(outcome: object) -> tuple[Form, ...]:
    assert isinstance(outcome, Finished)
    return outcome.answer.outputs


FIRST = Case({"N": 100, "dtype": "float32", "values": "normal", "offset": 0})
LAUNCH = "    add[(triton.cdiv(x.numel(), 64),)]"


def clues_of_second_call(server: ForkServer, entry: Entry, source: str) -> list[str]:
    """The kinds of the clues of a second call, on other inputs of the same form, that is wrong."""
    with bench_of(server, entry, source) as bench:
        trials = [bench.try_case(FIRST, seed) for seed in (5, 6)]
        assert trials[1].failure is not None
        before = len(bench.findings.tried), len(bench.findings.evidence)
        clues = remembered(bench, trials[1].recipe, trials[1].outcome)
        assert (len(bench.findings.tried), len(bench.findings.evidence)) == before
        # The process that remembers is still the one that the part is judged in.
        assert bench.try_case(FIRST, 7).failure is not None
    return [clue.kind for clue in clues]


def test_an_input_that_an_earlier_call_left_is_told_by_a_new_process(server: ForkServer, ex_15: Entry) -> None:
    kept = f"    y = kept.setdefault(y.shape, y.clone())\n{LAUNCH}"
    assert clues_of_second_call(server, ex_15, f"{VECTOR_ADD}\nkept = {{}}\n".replace(LAUNCH, kept)) == [
        "remembered_input"
    ]


def test_a_result_that_an_earlier_call_left_is_told_by_a_new_process(server: ForkServer, ex_15: Entry) -> None:
    kept = f"    if x.shape in kept:\n        return kept[x.shape]\n    kept[x.shape] = z\n{LAUNCH}"
    assert clues_of_second_call(server, ex_15, f"{VECTOR_ADD}\nkept = {{}}\n".replace(LAUNCH, kept)) == [
        "remembered_result"
    ]


def test_a_part_that_is_wrong_from_its_first_call_on_remembers_nothing(server: ForkServer, ex_15: Entry) -> None:
    assert clues_of_second_call(server, ex_15, VECTOR_ADD.replace("x + y,", "x + 2 * y,")) == []


TUNED = "@triton.autotune([triton.Config({'BLOCK': 64}), triton.Config({'BLOCK': 128})], key=[])\n@triton.jit"


def tuned(source: str) -> str:
    return source.replace("@triton.jit", TUNED, 1).replace(", BLOCK=64", "", 1)


def test_an_input_that_an_earlier_call_left_is_told_beside_an_autotuner(server: ForkServer, ex_15: Entry) -> None:
    kept = f"    y = kept.setdefault(y.shape, y.clone())\n{LAUNCH}"
    assert clues_of_second_call(server, ex_15, tuned(f"{VECTOR_ADD}\nkept = {{}}\n".replace(LAUNCH, kept))) == [
        "remembered_input"
    ]


def test_what_one_configuration_does_wrong_is_laid_to_no_earlier_call(server: ForkServer, ex_15: Entry) -> None:
    source = tuned(VECTOR_ADD.replace("x + y,", "x + y * (BLOCK // 64),"))
    with bench_of(server, ex_15, source) as bench:
        assert bench.try_case(FIRST, 5).failure is None
        (wrong,) = bench.tries([CallRequest(bench.part, FIRST, 6, wanted=Wanted((1,)))])
        assert wrong.failure is not None
        assert remembered(bench, wrong.recipe, wrong.outcome) == ()


@pytest.mark.parametrize(("earlier", "tells"), [([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], True), ([1 / 6] * 6, False)])
def test_an_answer_of_few_different_numbers_is_not_taken_for_an_earlier_one(earlier: list[float], tells: bool) -> None:
    value = torch.tensor(earlier, dtype=torch.float64)
    was = (Expected("p", value, torch.float32, value * 1e-6),)
    is_now = (Expected("p", value + 1, torch.float32, value * 1e-6),)
    got = value.float().numpy().tobytes()
    seen: Any = SimpleNamespace(outcome=SimpleNamespace(outputs=(got,)), expected=is_now)
    assert _is_answer_to(seen, was) == tells


# Long vectors are added up in three parts, in any order.
ADDED_IN_PARTS = (
    VECTOR_ADD.replace("    z = torch", "    if x.numel() > 500:\n        return in_parts(x, y)\n    z = torch")
    + """
@triton.jit
def parts(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x, y = tl.load(x_ptr + offsets, mask=mask), tl.load(y_ptr + offsets, mask=mask)
    tl.atomic_add(z_ptr + offsets, tl.where(tl.program_id(1) == 0, x, y * 0.5), mask=mask)

def in_parts(x, y):
    z = torch.zeros_like(x)
    parts[(triton.cdiv(x.numel(), 64), 3)](x, y, z, x.numel(), BLOCK=64)
    return z
"""
)


@pytest.mark.parametrize("longest", [500, 900])
def test_equal_bits_are_asked_of_the_cases_of_other_checks_too(longest: int, server: ForkServer, ex_15: Entry) -> None:
    """There may be another kernel for long vectors, which this check does not meet."""
    with bench_of(server, ex_15, ADDED_IN_PARTS) as bench:
        bench = replace(bench, part=replace(bench.part, in_any_order=True))  # noqa: PLW2901
        space = bench.part.checks[1].cases.space  # type: ignore[union-attr]
        cases = [PlannedCase(space.case(N=length), 1) for length in (100, longest)]
        assert all(
            trial.failure is None for trial in bench.tries([CallRequest(bench.part, one.case, 1) for one in cases])
        )
        ruling = decide(bench, cases[:1], Fresh(Cases(space)))
    assert (ruling.failure is not None) == (longest > 500)
    assert ruling.failing == (cases[1] if longest > 500 else None)
