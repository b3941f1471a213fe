"""A few cases in which as many pairs of values as possible meet."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.exercise.cases import Case, Choice, Size, Space, Value
from grader.exercise.covering import GRAINS, covering

pytestmark = pytest.mark.process

DTYPES = ("float32", "float16", "bfloat16")
FAMILIES = ("normal", "large", "masked", "late")
OFFSETS = (0, 1, 3)
CHOICES = Space({"dtype": Choice(DTYPES), "values": Choice(FAMILIES), "offset": Choice(OFFSETS)})
LENGTHS = Space({"N": Size(1, 160), "dtype": Choice(DTYPES)})


def pairs(cases: list[Case]) -> set[frozenset[tuple[str, Value]]]:
    return {frozenset(pair) for case in cases for pair in combinations(case.items(), 2)}


def lengths(cases: list[Case]) -> list[int]:
    return [int(case["N"]) for case in cases]


def test_every_two_values_meet_in_a_third_of_all_combinations() -> None:
    cases = covering(CHOICES, 18, seed=5)
    everything = [Case(dict(zip(CHOICES.axes, one, strict=True))) for one in product(DTYPES, FAMILIES, OFFSETS)]
    assert pairs(cases) == pairs(everything)
    assert len(cases) <= len(everything) / 2


def test_with_every_dtype_come_the_least_a_short_a_middling_and_a_long_length() -> None:
    cases = covering(LENGTHS, 12, seed=5)
    for dtype in DTYPES:
        of_it = sorted(lengths([case for case in cases if case["dtype"] == dtype]))
        assert of_it[0] == 1 < of_it[1] <= 10 < of_it[2] <= 80 < of_it[3] <= 160


def test_about_half_of_the_lengths_are_multiples_of_what_tiles_are_wide() -> None:
    space = Space({"N": Size(1, 2000), "dtype": Choice(DTYPES[:1])})
    drawn = lengths([case for seed in range(20) for case in covering(space, 4, seed)])
    of_tiles = [length for length in drawn if length % 16 == 0]
    assert len(drawn) / 4 <= len(of_tiles) <= len(drawn) / 2
    # What small tiles divide, and large ones do not.
    assert any(length // 32 % 2 for length in of_tiles if length % 32 == 0)


def test_each_axis_gets_a_length_that_tiles_divide_and_tiles_twice_as_wide_do_not() -> None:
    space = Space({"M": Size(1, 2000), "N": Size(1, 500), "dtype": Choice(DTYPES)})
    for seed in range(5):
        cases = covering(space, 20, seed)
        for axis, most in (("M", 2000), ("N", 500)):
            odd = {grain for case in cases for grain in GRAINS if int(case[axis]) % (2 * grain) == grain < case[axis]}
            # The longest range begins above a quarter of the domain.
            assert odd >= {grain for grain in GRAINS if 4 * grain <= most // 2}


def test_it_ends_where_nothing_new_would_meet() -> None:
    assert len(covering(LENGTHS, 100, seed=5)) == 12


def test_the_first_cases_are_those_in_which_the_most_is_new() -> None:
    assert covering(CHOICES, 4, seed=5) == covering(CHOICES, 18, seed=5)[:4]
    assert len(pairs(covering(CHOICES, 3, seed=5))) == 9


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_the_same_seed_gives_the_same_cases_and_another_others(seed: int) -> None:
    assert covering(LENGTHS, 12, seed) == covering(LENGTHS, 12, seed)
    assert covering(LENGTHS, 12, seed) != covering(LENGTHS, 12, seed + 1)


def test_what_is_there_already_is_not_drawn_again() -> None:
    first = covering(CHOICES, 5, seed=5)
    assert not {*first} & {*covering(CHOICES, 30, seed=5, without=frozenset(first))}


def test_only_what_the_contract_allows_is_drawn() -> None:
    space = Space({"M": Size(1, 100), "N": Size(1, 100)}, where=lambda case: int(case["M"]) * int(case["N"]) <= 200)
    cases = covering(space, 10, seed=5)
    assert all(space.allows(case) for case in cases)
    assert {*lengths(cases)} & {*range(51, 101)}


def test_none_are_drawn_where_none_are_asked_for_or_allowed() -> None:
    assert covering(CHOICES, 0, seed=5) == []
    assert covering(Space(CHOICES.axes, where=lambda _: False), 3, seed=5) == []


@given(
    low=st.integers(0, 40), width=st.integers(0, 300), step=st.sampled_from((1, 4, 8)), seed=st.integers(0, 2**64 - 1)
)
def test_lengths_lie_in_their_domain_the_least_among_them(low: int, width: int, step: int, seed: int) -> None:
    domain = Size(low * step, (low + width) * step, multiple_of=step)
    drawn = lengths(covering(Space({"N": domain, "dtype": Choice(DTYPES)}), 12, seed))
    assert all(length in domain for length in drawn)
    assert domain.low in drawn
