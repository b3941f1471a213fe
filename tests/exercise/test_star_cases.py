"""From small cases one length at a time goes to its far end, and meets the other choices there."""

from __future__ import annotations

import pytest

from grader.errors import SpecError
from grader.exercise.abilities import WHOLE_CPU
from grader.exercise.cases import Case, Cases, Choice, Size, Space, Star
from grader.exercise.model import Check, Exercise, Part, Tolerance
from grader.exercise.plan import draw
from grader.exercise.replay_token import ReplayToken, replay_plan
from grader.exercise.rules import Agrees
from grader.exercise.star_cases import star_cases

DTYPES = ("float32", "float16", "bfloat16")
FAMILIES = ("normal", "masked")


def few_elements(case: Case) -> bool:
    return int(case["M"]) * int(case["N"]) <= 5000


NEAR = Space({"M": Size(1, 20), "N": Size(1, 100), "dtype": Choice(DTYPES), "values": Choice(FAMILIES)})
FAR = Space(
    {"M": Size(1, 1000), "N": Size(1, 1 << 16), "dtype": Choice(DTYPES), "values": Choice(FAMILIES)}, few_elements
)


def exercise(cases: Cases) -> Exercise:
    check = Check("far", "Right", 100, "copies", Agrees(cases))
    return Exercise("Copying", "1", (Part("copy", "Copy", ("x",), ("y",), Tolerance(), (check,), ("a", "b", "c")),))


@pytest.mark.parametrize("seed", range(5))
def test_every_length_comes_to_the_last_part_of_what_is_allowed_while_the_others_are_short(seed: int) -> None:
    columns, rows = star_cases(FAR, 2, seed)
    assert int(rows["M"]) >= 7 / 8 * min(1000, 5000 // int(rows["N"])) - 1
    assert int(rows["N"]) <= 4
    assert int(columns["N"]) >= 7 / 8 * (5000 // int(columns["M"])) - 1
    assert int(columns["M"]) <= 4


@pytest.mark.parametrize("seed", range(5))
def test_no_length_is_kept_far_below_the_most_by_what_was_drawn_for_the_others(seed: int) -> None:
    assert int(star_cases(FAR, 1, seed)[0]["N"]) >= 7 / 8 * 0.75 * 5000
    shared = Space({"B": Size(1, 160), "H": Size(1, 160)}, lambda case: int(case["B"]) * int(case["H"]) <= 160)
    assert all(int(case["B"]) * int(case["H"]) > 132 for case in star_cases(shared, 2, seed))


def test_the_axis_that_may_be_longest_comes_first() -> None:
    columns, rows = star_cases(FAR, 2, seed=5)
    assert columns["N"] > 1000 > 100 > rows["N"]


@pytest.mark.parametrize("seed", range(5))
def test_in_a_second_turn_another_length_is_middling(seed: int) -> None:
    (_, _, columns, rows) = star_cases(FAR, 4, seed)
    assert 5 <= int(columns["M"]) <= 28
    assert int(columns["N"]) >= 7 / 8 * (5000 // int(columns["M"])) - 1
    assert 5 <= int(rows["N"]) <= 28
    assert int(rows["M"]) > 100


def test_no_case_costs_more_than_the_space_allows() -> None:
    assert all(few_elements(case) for seed in range(10) for case in star_cases(FAR, 8, seed))


@pytest.mark.parametrize("seed", range(5))
def test_the_far_end_of_every_length_meets_every_other_choice(seed: int) -> None:
    cases = star_cases(FAR, 8, seed)
    for first in (0, 1):
        arm = cases[first::2]
        assert {case["dtype"] for case in arm} == {*DTYPES}
        assert {case["values"] for case in arm} == {*FAMILIES}


def test_the_same_seed_gives_the_same_cases_and_another_others() -> None:
    assert star_cases(FAR, 6, 3) == star_cases(FAR, 6, 3) != star_cases(FAR, 6, 4)


def test_lengths_keep_to_their_multiples() -> None:
    space = Space({"K": Size(8, 4096, multiple_of=8), "M": Size(8, 64, multiple_of=8)})
    assert all(case in [space.case(**case)] for case in star_cases(space, 6, 1))


def test_a_space_without_a_length_has_no_star() -> None:
    assert star_cases(Space({"dtype": Choice(DTYPES)}), 4, 1) == []
    with pytest.raises(SpecError):
        Star(4, Space({"dtype": Choice(DTYPES)}))


def test_a_star_has_the_axes_of_its_check() -> None:
    with pytest.raises(SpecError, match=r"Cases\.star"):
        Cases(NEAR, star=Star(2, Space({"M": Size(1, 1000)})))


def test_a_plan_ends_with_the_star_and_its_cases_are_replayed_by_token_and_shrink_in_its_space() -> None:
    cases = Cases(NEAR, ({"M": 3},), generated=0, star=Star(4, FAR))
    planned = draw(exercise(cases), 5, WHOLE_CPU).checks[0]
    assert len(planned.cases) == 5
    for one in planned.cases[1:]:
        assert max(int(one.case["M"]) / 20, int(one.case["N"]) / 100) > 1
        token = ReplayToken("ex_90", "copy.far", one.case, one.seed)
        assert replay_plan(exercise(cases), token, WHOLE_CPU).checks[0].cases == (one,)
        assert cases.around(one.case) is FAR
    assert cases.around(planned.cases[0].case) is NEAR


BROAD = Space({"M": Size(1, 9000), "N": Size(1, 9000), "K": Size(8, 9000, multiple_of=8), "dtype": Choice(DTYPES)})


def little_work(case: Case) -> bool:
    return int(case["M"]) * int(case["N"]) * int(case["K"]) <= 1 << 21


@pytest.mark.parametrize("seed", range(5))
def test_points_together_are_long_along_every_length_and_as_large_as_is_allowed(seed: int) -> None:
    cases = star_cases(Space(BROAD.axes, little_work), 0, seed, together=6)
    assert len(cases) == 6
    for case in cases:
        lengths = [int(case[name]) for name in "MNK"]
        assert little_work(case)
        assert min(lengths) >= 16
        assert max(lengths) <= 32 * min(lengths)
        assert lengths[0] * lengths[1] * lengths[2] >= 1 << 19
    assert {case["dtype"] for case in cases} == {*DTYPES}


def test_without_a_limit_points_together_end_where_the_lengths_do() -> None:
    assert all(max(int(case[name]) for name in "MNK") >= 7000 for case in star_cases(BROAD, 0, 1, together=4))


def test_points_together_come_after_the_arms_and_leave_them_as_they_are() -> None:
    alone, both = star_cases(FAR, 4, 2), star_cases(FAR, 4, 2, together=2)
    assert both[:4] == alone
    assert len(both) == 6
