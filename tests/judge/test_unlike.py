"""Inputs whose whole numbers happen to be the decoys', or another call's, are drawn again."""

from __future__ import annotations

import pytest
import torch

from grader.judge.unlike import draw_unlike, whole_numbers
from grader.protocol.messages import Recipe


def recipe(seed: int, part: str = "append", **case: int) -> Recipe:
    return Recipe(part, case, seed)


def drawing(*seeds: int) -> list[Recipe]:
    return [recipe(seed) for seed in seeds]


# The whole numbers of a recipe: as if a case had six orders of lengths.
def of_six(one: Recipe) -> tuple[bytes, ...]:
    return (bytes([one.seed % 6]),)


def test_what_differs_stays() -> None:
    assert draw_unlike(lambda draw: drawing(8 + draw), drawing(1), of_six) == drawing(8)


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
    assert draw_unlike(lambda draw: drawing(*draws[draw]), drawing(*decoys), of_six) == drawing(*wanted)


def test_calls_of_other_parts_and_cases_may_be_alike() -> None:
    drawn = [recipe(2), recipe(8, part="decode"), recipe(14, S=5)]
    assert draw_unlike(lambda draw: drawn if not draw else [], drawing(0, 0, 0), of_six) == drawn


def test_whole_numbers_are_those_of_tensors_of_whole_numbers() -> None:
    lengths, mask = torch.tensor([1, 2], dtype=torch.int32), torch.tensor([True])
    assert whole_numbers((torch.ones(2), 3, None, lengths, mask)) == (bytes([1, 0, 0, 0, 2, 0, 0, 0]), b"\x01")
    assert whole_numbers((torch.ones(2), 3)) == ()
