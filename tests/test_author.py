"""What the author's gate finds out about an exercise beside its files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from grader.author import honest_finding, repeatable_inputs
from grader.exercise.catalogue import resolve
from grader.exercise.plan import Plan, draw
from grader.judge.truth import Truth
from tests.conftest import ROOT
from tests.records import samples

ENTRY = resolve(ROOT, "ex_15")[0]
DRAWN = draw(ENTRY.exercise, 5, gpu=False, parts=frozenset(("vector_add",)))
PLAN = replace(DRAWN, checks=DRAWN.checks[:2])


def outcomes(builder: str, plan: Plan = PLAN) -> list[tuple[bool | None, str]]:
    truth = Truth(f"import torch\ncalls = []\n\n\ndef vector_add(case, generator):\n    {builder}\n", "")
    return [(found.holds, found.outcome) for found in repeatable_inputs(plan, truth)]


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


def test_equal_nans_are_the_same_inputs() -> None:
    assert outcomes("return (torch.full((3,), float('nan')),)") == [(True, "repeatable")]


HONEST = Path("honest/by_assembly.py")


def test_an_honest_file_of_which_nothing_can_be_judged_on_this_machine_is_neither_sound_nor_bad() -> None:
    record = samples.without_parts()
    unjudged = replace(record, checks=record.checks[:2])
    found = honest_finding(HONEST, frozenset({"f"}), unjudged)
    assert (found.holds, found.outcome) == (None, f"nothing judged here: {samples.NO_DSL}")


def test_an_honest_file_is_sound_by_what_was_judged_and_bad_where_it_has_no_part() -> None:
    assert honest_finding(HONEST, frozenset({"h"}), samples.without_parts()).holds is True
    empty = replace(samples.without_parts(), checks=())
    assert honest_finding(HONEST, frozenset(), empty).holds is False
