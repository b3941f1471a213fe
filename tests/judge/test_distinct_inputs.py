"""Inputs whose whole numbers happen to be the decoys', or another call's, are drawn again."""

from __future__ import annotations

import pytest
import torch

from grader.judge.distinct_inputs import draw_distinct, whole_numbers
from grader.judge.truth import Truth
from grader.protocol.requests import Recipe


def recipe(seed: int, part: str = "append", **case: int) -> Recipe:
    return Recipe(part, case, seed)


def drawing(*seeds: int) -> list[Recipe]:
    return [recipe(seed) for seed in seeds]


# The whole numbers of a recipe: as if a case had six orders of lengths.
def of_six(one: Recipe) -> tuple[bytes, ...]:
    return (bytes([one.seed % 6]),)


def test_what_differs_stays() -> None:
    assert draw_distinct(lambda draw: drawing(8 + draw), drawing(1), of_six) == drawing(8)


@pytest.mark.parametrize(
    ("draws", "decoys", "wanted"),
    [
        pytest.param([[7], [13], [3]], [1], [3], id="the decoys' own"),
        pytest.param([[2, 8], [3, 4]], [0, 1], [3, 4], id="another call's"),
        pytest.param([[2, 2]], [0, 1], [2, 2], id="the same call twice"),
        pytest.param([[7]] * 6, [1], [7], id="a case that has no others"),
    ],
)
def test_what_is_alike_is_drawn_again(draws: list[list[int]], decoys: list[int], wanted: list[int]) -> None:
    assert draw_distinct(lambda draw: drawing(*draws[draw]), drawing(*decoys), of_six) == drawing(*wanted)


def test_calls_of_other_parts_and_cases_may_be_alike() -> None:
    drawn = [recipe(2), recipe(8, part="decode"), recipe(14, S=5)]
    assert draw_distinct(lambda draw: drawn if not draw else [], drawing(0, 0, 0), of_six) == drawn


def test_whole_numbers_are_those_of_tensors_of_whole_numbers() -> None:
    lengths, mask = torch.tensor([1, 2], dtype=torch.int32), torch.tensor([True])
    assert whole_numbers((torch.ones(2), 3, None, lengths, mask)) == (bytes([1, 0, 0, 0, 2, 0, 0, 0]), b"\x01")
    assert whole_numbers((torch.ones(2), 3)) == ()


DRAWN = """
import torch

drawn = []


def append(case, generator):
    drawn.append(generator.initial_seed())
    return torch.ones(3), torch.tensor([drawn[-1], case["L"]])


def add(case, generator):
    drawn.append(generator.initial_seed())
    return torch.ones(3), torch.ones(3)
"""


def test_a_truth_draws_the_inputs_of_a_call_once_for_its_whole_numbers() -> None:
    truth = Truth(DRAWN, "")
    again = [truth.whole_numbers(recipe(seed, L=2)) for seed in (5, 6, 5)]
    assert again[0] == again[2] != again[1]
    assert truth._inputs.drawn == [5, 6]


def test_one_call_shows_for_a_part_that_it_takes_whole_numbers() -> None:
    truth = Truth(DRAWN, "")
    parts = [truth.has_whole_numbers(recipe(seed, part, L=2)) for seed in (5, 6) for part in ("append", "add")]
    assert parts == [True, False, True, False]
    assert truth._inputs.drawn == [5, 5]


def test_of_whole_numbers_the_latest_are_stored() -> None:
    truth = Truth(DRAWN, "", keep=2)
    for seed in (1, 2, 3, 3, 1):
        truth.whole_numbers(recipe(seed, L=2))
    assert truth._inputs.drawn == [1, 2, 3, 1]
