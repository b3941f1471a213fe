"""Arguments that have a default are left out in some cases, and given in others."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.exercise.catalogue import discover
from grader.exercise.plan import default_seed
from grader.judge.trial import omitted_arguments
from grader.protocol.requests import Call, Recipe
from tests.conftest import plan_of

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]


def call(defaults: dict[str, int | float | bool | str | None]) -> Call:
    return Call(Recipe("f", {}, 1), ("x", "causal", "scale"), (), (), defaults=defaults)


def test_what_has_its_default_is_left_out_from_the_end() -> None:
    assert call({"scale": None}).given([1, False, None]) == [1, False]
    assert call({"causal": False, "scale": None}).given([1, False, None]) == [1]


def test_what_has_another_value_is_given_and_so_is_all_before_it() -> None:
    assert call({"causal": False, "scale": None}).given([1, False, 0.5]) == [1, False, 0.5]
    assert call({"causal": False, "scale": None}).given([1, True, None]) == [1, True]


def test_everything_is_given_where_nothing_may_be_left_out() -> None:
    assert call({}).given([1, False, None]) == [1, False, None]


def test_every_default_is_left_out_in_some_planned_case_and_given_in_another() -> None:
    seen = 0
    for entry in discover(ROOT):
        for part in entry.exercise.parts:
            planned = plan_of(entry, default_seed(entry.id), gpu=False, parts=frozenset({part.name})).checks
            left = [
                omitted_arguments(part, Recipe(part.name, dict(one.case), 1)) for each in planned for one in each.cases
            ]
            for name in part.defaults:
                seen += 1
                assert 3 <= sum(name in some for some in left) <= len(left) - 3
    assert seen >= 4
