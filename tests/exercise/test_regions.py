"""Where kernels take another path, cases of their own have nothing plain."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from grader.errors import SpecError
from grader.exercise.abilities import WHOLE_CPU
from grader.exercise.cases import Case, Cases, Choice, Region, Size, Space, Star
from grader.exercise.catalogue import discover
from grader.exercise.model import Check, Exercise, Part, Tolerance
from grader.exercise.plan import draw
from grader.exercise.replay_token import ReplayToken, replay_plan
from grader.exercise.rules import Agrees

NEAR = Space({"M": Size(1, 20), "layout": Choice(("rows", "mixed")), "dtype": Choice(("float32", "float16"))})
ROUND = Space({"M": Size(128, 512, multiple_of=128), "layout": Choice(("mixed",)), "dtype": NEAR.axes["dtype"]})
CASES = Cases(NEAR, ({"M": 3},), generated=0, regions=(Region(4, ROUND),))


def exercise(cases: Cases) -> Exercise:
    check = Check("round", "Right", 100, "copies", Agrees(cases))
    return Exercise("Copying", "1", (Part("copy", "Copy", ("x",), ("y",), Tolerance(), (check,), ("a", "b", "c")),))


@pytest.mark.parametrize("seed", range(5))
def test_a_plan_holds_cases_of_each_region_and_every_choice_meets_there(seed: int) -> None:
    planned = draw(exercise(CASES), seed, WHOLE_CPU).checks[0]
    round_ones = [one.case for one in planned.cases if ROUND.holds(one.case)]
    assert 2 <= len(round_ones) <= 4
    assert {one["dtype"] for one in round_ones} == {"float32", "float16"}
    assert {one["layout"] for one in round_ones} == {"mixed"}


def test_a_case_of_a_region_is_replayed_by_its_token() -> None:
    planned = draw(exercise(CASES), 5, WHOLE_CPU).checks[0]
    one = next(one for one in planned.cases if ROUND.holds(one.case))
    token = ReplayToken("ex", planned.id, one.case, one.seed)
    assert replay_plan(exercise(CASES), token, WHOLE_CPU).checks[0].cases == (one,)


def test_a_failing_case_of_a_region_may_shrink_to_plain_values_and_short_lengths() -> None:
    around = CASES.around(Case({"M": 256, "layout": "mixed", "dtype": "float16"}))
    assert around.holds(Case({"M": 1, "layout": "rows", "dtype": "float32"}))
    shrunk = Case({"M": 130, "layout": "rows", "dtype": "float16"})
    assert around.holds(shrunk)
    assert CASES.case(dict(shrunk)) == shrunk


def test_only_the_ends_of_a_star_are_far() -> None:
    far = {"M": Size(1, 9000), "layout": Choice(("rows",)), "dtype": NEAR.axes["dtype"]}
    cases = replace(CASES, star=Star(2, Space(far)))
    assert not cases.is_far(Case({"M": 256, "layout": "mixed", "dtype": "float16"}))
    assert cases.is_far(Case({"M": 8999, "layout": "rows", "dtype": "float16"}))


def test_a_region_has_the_axes_of_its_check() -> None:
    with pytest.raises(SpecError, match=r"Cases\.regions"):
        Cases(NEAR, regions=(Region(2, Space({"M": Size(1, 1000)})),))


def test_a_region_holds_at_least_one_case() -> None:
    with pytest.raises(SpecError, match=r"Region\.count"):
        Region(0, ROUND)


def test_no_region_of_an_exercise_has_a_plain_scale_or_layout() -> None:
    """Beside them, a path that forgets scales or strides is right."""
    plain = {"scale": "default", "layout": "bhsd", "a_layout": "rows", "b_layout": "rows", "stride": 0, "offset": 0}
    checks = [check for entry in discover(Path(__file__).parents[2]) for _, check in entry.exercise.checks()]
    regions = [region for check in checks if check.cases for region in check.cases.regions]
    assert len(regions) > 10
    for region, (axis, value) in product(regions, plain.items()):
        assert axis not in region.space.axes or value not in region.space.axes[axis], region
