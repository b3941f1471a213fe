"""A failed call is described by its inputs, and by the elements around the worst one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from grader.diagnosis.surroundings import around, input_words
from grader.record.causes import Mismatch, Neighbour


def mismatch(*worst: int) -> Mismatch:
    return Mismatch("y", 1, 9, 1.0, 1.0, worst, "scattered", ())


def beside(got: Tensor, *worst: int, **inputs: object) -> tuple[Neighbour, ...]:
    return around(mismatch(*worst), got, got == 4.0, got.double() + 1, inputs)


def test_three_elements_on_each_side_are_shown_with_the_inputs_at_their_place() -> None:
    found = beside(torch.arange(9.0), 4, x=torch.arange(9.0) * 10)
    assert [one.index for one in found] == [(1,), (2,), (3,), (4,), (5,), (6,), (7,)]
    assert found[3] == Neighbour((4,), expected=5.0, got=4.0, is_wrong=True, inputs={"x": 40.0})
    assert [one.is_wrong for one in found].count(True) == 1


def test_at_an_end_there_are_fewer() -> None:
    assert [one.index for one in beside(torch.arange(9.0), 8)] == [(5,), (6,), (7,), (8,)]
    assert [one.index for one in beside(torch.arange(2.0), 0)] == [(0,), (1,)]


def test_the_row_of_the_worst_element_is_shown() -> None:
    got = torch.arange(6.0).reshape(2, 3)
    found = beside(got, 1, 1, bias=torch.tensor([7.0, 8.0, 9.0]), lengths=torch.tensor([3, 5]))
    assert [one.index for one in found] == [(1, 0), (1, 1), (1, 2)]
    assert found[0].inputs == {"bias": 7.0, "lengths": 5.0}


def test_an_input_of_another_shape_has_no_element_there() -> None:
    assert beside(torch.arange(6.0), 4, a=torch.ones(4, 4), scale=2.0, s=torch.tensor(1.0))[0].inputs == {}


def test_an_output_without_axes_is_one_element() -> None:
    assert beside(torch.tensor(4.0), x=torch.ones(9)) == (Neighbour((), 5.0, 4.0, is_wrong=True),)


def test_a_value_that_json_cannot_hold_is_text() -> None:
    found = beside(torch.tensor([4.0]), 0, x=torch.tensor([float("nan")]))
    assert found[0].inputs == {"x": "nan"}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.tensor([1.0, -2.5]), "x [2] float32: 1, -2.5"),
        (torch.arange(9.0, dtype=torch.float16), "x [9] float16, 0 … 8"),
        (torch.cat([torch.arange(9.0), torch.tensor([torch.inf])]), "x [10] float32, 0 … 8, 1 infinite or NaN"),
        (torch.arange(12).reshape(3, 4), "x [3, 4] int64, 0 … 11"),
        (torch.ones(9) > 2, "x [9] bool, 0 … 0"),
        (torch.ones(9).to(torch.float8_e4m3fn), "x [9] float8_e4m3fn, 1 … 1"),
        (torch.empty(0), "x [0] float32"),
        (0.5, "x = 0.5"),
        (None, "x = None"),
        ([torch.ones(2)], "x: list"),
    ],
)
def test_an_argument_is_told_in_words(value: object, words: str) -> None:
    assert input_words("x", value) == words
