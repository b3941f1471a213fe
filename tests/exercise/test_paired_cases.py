"""Two cases of the same lengths follow each other, in both orders of two choices: what is kept by shape is wrong."""

from __future__ import annotations

import pytest

from grader.errors import SpecError
from grader.exercise.cases import Case, Cases, Choice, Size, Space
from grader.exercise.paired_cases import paired_cases

SPACE = Space(
    {
        "M": Size(1, 500),
        "heads": Choice((1, 2, 4)),
        "dtype": Choice(("float32", "float16", "bfloat16")),
        "layout": Choice(("rows", "columns")),
        "values": Choice(("normal", "large")),
        "causal": Choice((0,)),
    }
)


def differing(one: Case, other: Case) -> list[str]:
    return [name for name in one if one[name] != other[name]]


def test_each_axis_gets_both_orders_of_two_choices_at_lengths_of_their_own() -> None:
    cases = paired_cases(SPACE, ("dtype", "layout"), 3)
    assert len(cases) == 8
    for place, axis in ((0, "dtype"), (4, "layout")):
        first, second, third, fourth = cases[place : place + 4]
        assert differing(first, second) == differing(third, fourth) == [axis]
        assert (first[axis], second[axis]) == (fourth[axis], third[axis])
        assert first["M"] != third["M"] or first["heads"] != third["heads"]
    assert {case["values"] for case in cases} == {"normal"}


def test_the_same_seed_gives_the_same_cases_and_none_that_is_planned_already() -> None:
    first = paired_cases(SPACE, ("dtype",), 1)
    assert paired_cases(SPACE, ("dtype",), 1) == first
    assert not {*first} & {*paired_cases(SPACE, ("dtype",), 1, without=frozenset(first))}


def test_an_axis_with_one_value_and_a_space_that_allows_no_such_pair_have_none() -> None:
    narrow = Space({**SPACE.axes}, where=lambda case: case["layout"] == "rows")
    assert paired_cases(SPACE, ("causal",), 1) == []
    assert paired_cases(narrow, ("layout",), 1) == []


def test_only_choices_take_turns() -> None:
    with pytest.raises(SpecError, match=r"Cases\.turns must name some of the choices"):
        Cases(SPACE, turns=("M",))
