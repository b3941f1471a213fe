"""What the author's gate finds out about an exercise beside its files."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Literal

import pytest
import torch

from grader.exercise.abilities import WHOLE_CPU
from grader.exercise.catalogue import resolve
from grader.exercise.plan import Plan, draw
from grader.judge.truth import Truth
from grader.record.statuses import UNJUDGED
from grader.soundness.cheats import trivial_answers
from grader.soundness.claims import Claim, planted_finding
from grader.soundness.inputs import early_whole_numbers, repeatable_inputs, seeded_inputs, steady_forms
from grader.soundness.oracles import wide_oracles
from grader.soundness.trials import Share, shares
from grader.soundness.verdicts import honest_finding
from tests.conftest import ROOT
from tests.records import samples

ENTRY = resolve(ROOT, "ex_15")[0]


@cache
def whole_plan() -> Plan:
    """Draw a part's checks: half a second, so not where this file is collected."""
    return draw(ENTRY.exercise, 5, WHOLE_CPU, parts=frozenset(("vector_add",)))


def two_checks() -> Plan:
    return replace(whole_plan(), checks=whole_plan().checks[:2])


def built_by(builder: str) -> Truth:
    return Truth(f"import torch\ncalls = []\n\n\ndef vector_add(case, generator):\n    {builder}\n", "")


def outcomes(builder: str, plan: Plan | None = None) -> list[tuple[bool | None, str]]:
    return [(found.holds, found.outcome) for found in repeatable_inputs(plan or two_checks(), built_by(builder))]


def seeds(builder: str, plan: Plan | None = None) -> list[tuple[bool | None, str]]:
    return [(found.holds, found.outcome) for found in seeded_inputs(plan or two_checks(), built_by(builder))]


def oracles(value: str, honest: str) -> list[tuple[bool | None, str]]:
    functions = f"def vector_add(x):\n    return {value}\n\n\ndef vector_add_honest(x):\n    yield {honest}\n"
    truth = Truth("import torch\n\n\ndef vector_add(case, generator):\n    return (torch.ones(3),)\n", functions)
    return [(found.holds, found.outcome) for found in wide_oracles(two_checks(), truth)]


def test_inputs_that_depend_on_the_seed_alone_are_repeatable() -> None:
    assert outcomes("return torch.randn(int(case['N']), generator=generator), case['N']") == [(True, "repeatable")]


@pytest.mark.parametrize(
    "builder",
    [
        "return (torch.randn(int(case['N'])),)",
        "return (torch.tensor(float('nan') if torch.get_num_threads() > 1 else 0.0),)",
        "calls.append(1); return (len(calls),)",
        "calls.append(1); return (torch.zeros(9)[len(calls) % 2:][:3],)",
        "calls.append(1); return (1,) * len(calls)",
    ],
    ids=["another generator", "the number of threads", "a counter", "where it lies", "how many"],
)
def test_inputs_that_depend_on_anything_else_are_found_with_their_case(builder: str) -> None:
    ((holds, outcome),) = outcomes(builder)
    assert not holds
    assert outcome.startswith("a seed gives other inputs a second time: N=")


@pytest.mark.parametrize(
    ("numbers", "holds"),
    [
        pytest.param("torch.randint(99, (3,), generator=generator)", True, id="drawn first"),
        pytest.param("torch.randint(99, (2, 3), generator=generator)[1]", False, id="drawn in other ways"),
    ],
)
def test_whole_numbers_that_are_made_alone_must_be_those_of_the_inputs(numbers: str, holds: bool) -> None:
    drawn = "return torch.randint(99, (3,), generator=generator), torch.rand(3, generator=generator)"
    alone = f"def vector_add_whole_numbers(case, generator):\n    return ({numbers},)\n"
    truth = Truth(f"import torch\n\n\ndef vector_add(case, generator):\n    {drawn}\n\n\n{alone}", "")
    (found,) = early_whole_numbers(two_checks(), truth)
    assert found.holds is holds
    assert found.outcome.startswith("the same alone" if holds else "vector_add_whole_numbers gives others than")


def test_parts_without_whole_numbers_are_not_looked_at() -> None:
    assert not list(early_whole_numbers(two_checks(), built_by("return (torch.ones(3),)")))


def test_equal_nans_are_the_same_inputs() -> None:
    assert outcomes("return (torch.full((3,), float('nan')),)") == [(True, "repeatable")]


def test_inputs_that_some_case_of_every_check_draws_by_its_seed_depend_on_it() -> None:
    first = int(two_checks().checks[0].cases[0].case["N"])
    drawn = "torch.rand(3, generator=generator)"
    assert seeds(f"return ({drawn},)") == [(True, "others for others")]
    assert seeds(f"return (torch.ones(3) if case['N'] == {first} else {drawn},)") == [(True, "others for others")]


def test_a_check_whose_inputs_no_seed_changes_is_found_with_its_first_case() -> None:
    second = two_checks().checks[1].cases
    lengths = [int(one.case["N"]) for one in second]
    ((holds, outcome),) = seeds(
        f"return (torch.ones(3) if case['N'] in {lengths} else torch.rand(3, generator=generator),)"
    )
    assert not holds
    assert outcome == f"every seed gives the same inputs: {second[0].case.words()}"


@pytest.mark.parametrize(
    ("builder", "steady"),
    [
        ("return (torch.rand(3, generator=generator), 5)", True),
        ("return (torch.zeros(9)[int(torch.randint(5, (), generator=generator)) :][:3],)", False),
        ("return (torch.zeros(1 + int(torch.randint(5, (), generator=generator))),)", False),
    ],
    ids=["values", "where it lies", "its length"],
)
def test_a_seed_decides_values_and_not_where_tensors_lie(builder: str, steady: bool) -> None:
    ((holds, outcome),) = [(one.holds, one.outcome) for one in steady_forms(two_checks(), built_by(builder))]
    assert holds == steady
    first = two_checks().checks[0].cases[0].case.words()
    moved = f"a seed, or the family of values, decides where a tensor lies: {first}"
    assert outcome == ("the same for every seed" if steady else moved)


@pytest.mark.parametrize("builder", ["torch.zeros(3 + own)", "torch.zeros(4)[own:][:3]"])
def test_a_family_of_values_does_not_decide_where_tensors_lie(builder: str) -> None:
    truth = built_by(f"own = int(case['values'] != 'normal'); return ({builder},)")
    ((holds, outcome),) = [(one.holds, one.outcome) for one in steady_forms(whole_plan(), truth)]
    assert not holds
    assert "values=" in outcome


def test_an_oracle_in_float64_with_an_error_allowed_at_every_element_is_wide() -> None:
    assert oracles("x + 1", "x + 1") == [(True, "wide, and an error is allowed everywhere")]


def test_an_oracle_in_another_precision_is_found_with_its_case() -> None:
    first = two_checks().checks[0].cases[0].case.words()
    found = oracles("(x + 1).float()", "x + 1")
    assert found == [(False, f"z must be computed in float64, got float32: {first}")]


@pytest.mark.parametrize("error", [-1.0, float("nan")])
def test_an_element_with_no_possible_error_is_found_with_its_case(
    error: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grader.judge.truth.allowed_error", lambda *_: torch.tensor([0.0, error, 0.0]))
    ((holds, outcome),) = oracles("x + 1", "x + 1")
    assert not holds
    assert outcome.startswith(f"the error allowed in z must be 0 or more, got {error:g}: N=")


def test_an_answer_without_computation_is_found_if_it_is_right_in_every_case() -> None:
    plan = replace(two_checks(), checks=two_checks().checks[1:])
    last = int(plan.checks[0].cases[-1].case["N"])
    inputs = "import torch\n\n\ndef vector_add(case, generator):\n    return (torch.full((case['N'],), 3.0),) * 2\n"

    def passing(value: str) -> list[tuple[bool | None, str]]:
        oracle = f"def vector_add(x, y):\n    return {value}\n\n\ndef vector_add_honest(x, y):\n    yield {value}\n"
        return [(found.holds, found.outcome) for found in trivial_answers(plan, Truth(inputs, oracle))]

    assert passing("x * 0") == [(False, "passed by the next lower precision, zeros")]
    assert passing(f"x * 0 + (x.numel() == {last}) / 3") == [(True, "no trivial answer passes")]
    assert passing("x + y * x.numel() / 3") == [(True, "no trivial answer passes")]


def test_where_the_honest_function_computes_something_else_the_gate_asks_about_it() -> None:
    plan = replace(two_checks(), checks=two_checks().checks[1:])
    made = "(torch.randn(case['N'], generator=generator),) * 2"
    inputs = f"import torch\n\n\ndef vector_add(case, generator):\n    return {made}\n"
    oracle = "def vector_add(x, y):\n    return x + y\n\n\ndef vector_add_honest(x, y):\n    yield x + 1.05 * y\n"
    (found,) = trivial_answers(plan, Truth(inputs, oracle))
    assert (found.holds, found.outcome) == (
        False,
        "passed by the next lower precision: does vector_add_honest compute what the oracle does?",
    )


HONEST = Path("honest/by_assembly.py")


def test_an_honest_file_of_which_nothing_can_be_judged_on_this_machine_is_neither_sound_nor_bad() -> None:
    record = samples.without_parts()
    unjudged = replace(record, checks=record.checks[:2])
    found = honest_finding(HONEST, frozenset({"f"}), unjudged)
    assert (found.holds, found.outcome) == (None, f"nothing judged here: {samples.NO_DSL}")


@pytest.mark.parametrize(("mode", "wanted"), [("interpret", "fail"), ("gpu", "crash")])
def test_a_planted_mistake_may_end_in_another_way_on_a_gpu(mode: Literal["interpret", "gpu"], wanted: str) -> None:
    record = samples.without_parts()
    check = next(one for one in record.checks if one.status not in UNJUDGED)
    claim = Claim(check.id, "fail", "crash", "a wild address")
    for status in ("fail", "crash"):
        judged = replace(record, env=replace(record.env, mode=mode), checks=(replace(check, status=status),))
        assert planted_finding(HONEST, claim, judged).holds is (status == wanted)


def test_an_honest_file_is_sound_by_what_was_judged_and_bad_where_it_has_no_part() -> None:
    assert honest_finding(HONEST, frozenset({"h"}), samples.without_parts()).holds is True
    empty = replace(samples.without_parts(), checks=())
    assert honest_finding(HONEST, frozenset(), empty).holds is False


@pytest.mark.parametrize(("count", "sharers"), [(1, 1), (2, 2), (2, 7), (6, 6), (23, 6), (23, 17)])
def test_honest_variants_meet_every_case_of_a_check_and_none_of_them_no_case(count: int, sharers: int) -> None:
    planned = next(one for one in whole_plan().checks if len(one.cases) >= 23)
    planned = replace(planned, cases=planned.cases[:count])
    met = [Share(turn, sharers).of(planned).cases for turn in range(sharers)]
    assert all(met)
    assert {planned.cases.index(one) for one in chain(*met)} == {*range(count)}
    assert sum(map(len, met)) == max(count, sharers)


def test_a_check_without_cases_has_none_to_share() -> None:
    empty = next(one for one in whole_plan().checks if not one.cases)
    assert Share(1, 6).of(empty) == empty


def test_variants_share_the_cases_of_the_parts_that_they_define() -> None:
    both, first = frozenset({"add", "sum"}), frozenset({"add"})
    assert shares([both, first, both]) == [
        {"add": Share(0, 3), "sum": Share(0, 2)},
        {"add": Share(1, 3)},
        {"add": Share(2, 3), "sum": Share(1, 2)},
    ]
