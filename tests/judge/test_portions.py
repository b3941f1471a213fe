"""A portion of a problem is a problem of its own: what is expected of it is that stretch of what is expected of all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.exercise.catalogue import Entry, discover
from grader.exercise.model import Part
from grader.exercise.plan import default_seed
from grader.judge.compare import compare
from grader.judge.truth import Expected, Portion, Truth
from grader.protocol.requests import Recipe
from tests.conftest import ROOT, plan_of

pytestmark = pytest.mark.process

# The sizes of portions are for millions of elements; here they are for some hundreds.
SMALL = {"ELEMENTS_OF_A_PORTION": 512, "ROWS_OF_A_PORTION": 16}
# The first portion, one in the middle, and the last.
CHANCES = (0.0, 0.43, 1.0 - 2**-32)


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """On a busy machine, many threads wait for each other at every small product."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@cache
def truth_of(entry: Entry) -> Truth:
    """The truth of an exercise, cut into small portions."""
    truth = Truth.of(entry)
    for name, size in SMALL.items():
        if hasattr(truth._oracle, name):
            setattr(truth._oracle, name, size)
    return truth


@cache
def cut_parts() -> list[Any]:
    """The parts that an exercise cuts into portions."""
    return [
        pytest.param(entry, part.name, id=f"{entry.id}.{part.name}")
        for entry in discover(ROOT)
        for part in entry.exercise.parts
        if f"def {part.name}_portion(" in entry.source("oracle.py")
    ]


def recipes_of(entry: Entry, part: Part) -> list[Recipe]:
    """Planned cases of a part: the first of a check, often of size 1, and the second of the next, in turn."""
    plan = plan_of(entry, default_seed(entry.id), gpu=False)
    checks = [planned.cases[:2] for planned in plan.checks if planned.part.name == part.name and planned.cases]
    chosen = [cases[place % len(cases)] for place, cases in enumerate(checks)]
    found = {str(one.case): Recipe(part.name, dict(one.case), one.seed) for one in chosen}
    return list(found.values())


def stretch(whole: Tensor, portion: Portion) -> Tensor:
    """That part of an output, in the portion's shape."""
    shape = portion.expected.value.shape
    return whole.expand_as(whole).reshape(-1)[portion.start : portion.start + shape.numel()].reshape(shape)


def test_some_exercise_has_portions() -> None:
    assert len(cut_parts()) >= 7


@cache
def portions_of(entry: Entry, name: str) -> list[tuple[Recipe, tuple[Portion, ...]]]:
    """The portions of some cases of a part."""
    part, truth = part_of(entry, name), truth_of(entry)
    return [(recipe, truth.portion(part, recipe, chance)) for recipe in recipes_of(entry, part) for chance in CHANCES]


def part_of(entry: Entry, name: str) -> Part:
    part = entry.exercise.part(name)
    assert part is not None
    return part


@pytest.mark.parametrize(("entry", "name"), cut_parts())
def test_a_portion_is_that_stretch_of_the_whole(entry: Entry, name: str) -> None:
    part, starts = part_of(entry, name), set()
    for recipe, portions in portions_of(entry, name):
        whole = truth_of(entry).expect(part, recipe)
        assert len(portions) == len(whole)
        for portion, of in zip(portions, whole, strict=True):
            starts.add(portion.start)
            own = portion.expected
            assert (own.name, own.dtype, own.allowed.shape) == (of.name, of.dtype, own.value.shape)
            assert portion.start + own.value.numel() <= of.value.numel()
            # Sums in another order differ in their last bits, which is nothing beside what an answer may be off by.
            there = stretch(of.value, portion)
            near = (own.value - there).abs() <= 1e-12 * there.abs() + 1e-6 * own.allowed
            same = (own.value == there) | (own.value.isnan() & there.isnan())
            assert bool((near | same).all()), (recipe.case, portion.start, own.name)
    assert len(starts) > 1, "chance must have its say"


@pytest.mark.parametrize(("entry", "name"), cut_parts())
def test_what_is_right_for_the_whole_is_right_for_every_portion(entry: Entry, name: str) -> None:
    truth = truth_of(entry)
    honest = getattr(truth._oracle, f"{name}_honest")
    answers = {id(recipe): listed(next(iter(honest(*truth.inputs(recipe))))) for recipe, _ in portions_of(entry, name)}
    for recipe, portions in portions_of(entry, name):
        for portion, answer in zip(portions, answers[id(recipe)], strict=True):
            found = compare(stretch(answer, portion), portion.expected)
            assert found.agrees, (recipe.case, portion.start, portion.expected.name, found.worst)


@pytest.mark.parametrize(("entry", "name"), cut_parts())
def test_a_portion_is_the_same_whenever_it_is_asked_for(entry: Entry, name: str) -> None:
    truth, part = truth_of(entry), part_of(entry, name)
    recipe = recipes_of(entry, part)[0]
    first, again = (truth.portion(part, recipe, 0.43) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        assert one.start == other.start
        torch.testing.assert_close(one.expected.value, other.expected.value, rtol=0, atol=0, equal_nan=True)
        torch.testing.assert_close(one.expected.allowed, other.expected.allowed, rtol=0, atol=0)


def test_where_an_exercise_cuts_nothing_a_portion_is_all() -> None:
    inputs = "import torch\n\ndef double(case, generator):\n    return (torch.randn(7, generator=generator),)\n"
    oracle = "def double(x):\n    return 2 * x\n\ndef double_honest(x):\n    yield 2 * x\n"
    named = replace(discover(ROOT)[0].exercise.parts[0], name="double")
    truth, recipe = Truth(inputs, oracle), Recipe("double", {}, 1)
    (portion,) = truth.portion(named, recipe, 0.9)
    (whole,) = truth.expect(named, recipe)
    assert portion.start == 0
    assert portion.expected is whole


def listed(answers: object) -> list[Tensor]:
    return list(answers) if isinstance(answers, tuple | list) else [answers]  # type: ignore[list-item]


# -- what is expected, once more, elsewhere --------------------------------------------------------------------------


def expected_of(dtype: torch.dtype) -> Expected:
    value = torch.linspace(-8, 8, 40).double().view(5, 8)
    value = value if dtype.is_floating_point else value.round()
    return Expected("z", value, dtype, torch.full_like(value, 0.01))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32])
@pytest.mark.parametrize("wrong", [(), (0,), (3, 17, 39), tuple(range(40))], ids=["none", "one", "some", "all"])
def test_what_is_compared_elsewhere_comes_out_the_same(dtype: torch.dtype, wrong: tuple[int, ...]) -> None:
    here = expected_of(dtype)
    there = Expected(here.name, torch.full_like(here.value, 1e9), dtype, here.allowed, (here.value, here.allowed))
    got = here.value.to(dtype)
    for place in wrong:
        got.view(-1)[place] += 3
    one, other = compare(got, here), compare(got, there)
    assert (one.agrees, one.worst) == (other.agrees, other.worst)
    assert one.agrees == (not wrong)
    assert other.got is got
    assert one.wrong.equal(other.wrong)
    assert one.wrong.shape == other.error.shape == got.shape
    if wrong:
        assert one.error.equal(other.error)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_as_wrong_elsewhere(value: float) -> None:
    here = expected_of(torch.float32)
    there = Expected("z", here.value, here.dtype, here.allowed, (here.value, here.allowed))
    got = here.value.float()
    got[2, 3] = value
    one, other = compare(got, here), compare(got, there)
    assert not other.agrees
    assert one.worst == other.worst
    assert one.wrong.nonzero().tolist() == other.wrong.nonzero().tolist() == [[2, 3]]
