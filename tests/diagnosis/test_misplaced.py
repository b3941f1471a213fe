"""Right values in wrong places are recognised, and sums with another place's value; what repeats says nothing."""

from __future__ import annotations

import torch
from torch import Tensor

from grader.diagnosis.misplaced import misplaced_clues
from grader.judge.clue import Clue
from grader.judge.compare import compare
from grader.judge.truth import Expected

RIGHT = torch.randn(96, 40, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def clues(got: Tensor, value: Tensor = RIGHT, *blocks: int) -> list[Clue]:
    output = Expected("c", value, torch.float32, value.abs() * 1e-6 + 1e-6)
    got = got.float()
    return list(misplaced_clues(got, compare(got, output).wrong, output, blocks))


def kinds(got: Tensor, value: Tensor = RIGHT, *blocks: int) -> list[str]:
    return [clue.kind for clue in clues(got, value, *blocks)]


def test_rows_that_are_all_as_far_from_their_place_are_shifted() -> None:
    (clue,) = clues(torch.cat([RIGHT[:32], RIGHT[24:88]]))
    assert clue.kind == "position_shifted"
    assert clue.evidence.startswith("c[32, 0] holds the right value of c[24, 0]")


def test_blocks_that_start_at_their_number_have_a_wrong_address() -> None:
    rows = torch.arange(96)
    assert kinds(RIGHT[rows // 32 + rows % 32]) == ["wrong_address"]


def test_tiles_in_each_other_s_place_have_their_axes_exchanged() -> None:
    square = torch.randn(64, 64, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    tiles = square.view(4, 16, 4, 16).transpose(0, 2).reshape(64, 64)
    assert kinds(tiles, square, 16) == ["axes_exchanged"]


def test_a_sum_that_holds_another_place_s_as_well_was_not_cleared() -> None:
    got = RIGHT.clone()
    got[32:64] += RIGHT[:32]
    got[64:] += got[32:64]
    assert kinds(got) == ["not_cleared"]


def test_other_wrong_values_and_those_that_repeat_say_nothing() -> None:
    assert kinds(RIGHT * 2) == []
    assert kinds(RIGHT + 1) == []
    repeated = RIGHT[:1].expand(96, -1).clone()
    assert kinds(repeated.roll(3, 1), repeated) == []
    assert kinds(torch.full_like(RIGHT, torch.nan)) == []
