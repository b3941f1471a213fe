"""Comparison: every element counts, nothing non-finite is a wildcard, and what is said of a mismatch is true."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from grader.judge.compare import Comparison, compare, describe, pattern_of, picture_of, tensor_of
from grader.judge.tolerance import ulp
from grader.judge.truth import Expected
from grader.protocol.footprint import Footprint, TensorFootprint
from grader.protocol.observations import LaunchInfo
from grader.report.view import how_wrong

INF, NAN = math.inf, math.nan
FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def raw_bytes(tensor: Tensor) -> bytes:
    """A tensor's elements as a process copies them: contiguous, in the tensor's own dtype."""
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


def expected(value: Any, dtype: torch.dtype = torch.float32, *, ulps: float = 1.0) -> Expected:
    """What an oracle said, with that many ulps of room."""
    exact = torch.as_tensor(value, dtype=torch.float64 if dtype.is_floating_point else dtype)
    allowed = ulps * ulp(exact, dtype) if dtype.is_floating_point else torch.zeros(exact.shape, dtype=torch.float64)
    return Expected("out", exact, dtype, allowed)


def compared(got: Any, oracle: Any, dtype: torch.dtype = torch.float32, *, ulps: float = 1.0) -> Comparison:
    return compare(torch.as_tensor(got, dtype=dtype), expected(oracle, dtype, ulps=ulps))


def marks(shape: tuple[int, ...], *indices: Any) -> Tensor:
    """A mask that is true at the indices."""
    wrong = torch.zeros(shape, dtype=torch.bool)
    for index in indices:
        wrong[index] = True
    return wrong


# -- NaN, infinities, overflow ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("oracle", [0.0, 1.0, -7.0, INF, -INF])
def test_nan_is_wrong_wherever_the_oracle_has_something_else(oracle: float, dtype: torch.dtype) -> None:
    assert not compared([NAN], [oracle], dtype, ulps=1e30).agrees


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("got", [0.0, 1.0, INF, -INF])
def test_nothing_but_nan_is_right_where_the_oracle_has_it(got: float, dtype: torch.dtype) -> None:
    assert not compared([got], [NAN], dtype, ulps=1e30).agrees
    assert compared([NAN], [NAN], dtype).agrees


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("oracle", "got"), [(INF, -INF), (-INF, INF), (INF, 1.0), (-INF, 0.0), (1.0, INF), (0.0, -INF)]
)
def test_an_infinity_must_be_there_and_have_its_sign(oracle: float, got: float, dtype: torch.dtype) -> None:
    assert not compared([got], [oracle], dtype, ulps=1e3).agrees


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("value", [INF, -INF])
def test_the_same_infinity_is_right(value: float, dtype: torch.dtype) -> None:
    assert compared([value], [value], dtype).agrees


@pytest.mark.parametrize(
    ("oracle", "right", "wrong"),
    [
        # 65504 is the largest float16; from 65520 on, rounding gives infinity.
        (65519.0, [65504.0, INF], [-INF, NAN, 65408.0]),
        (65521.0, [65504.0, INF], [-INF, NAN, 65408.0]),
        (-65521.0, [-65504.0, -INF], [INF, NAN, -65408.0]),
        (60000.0, [60000.0, 60032.0], [INF, 65504.0]),
    ],
)
def test_next_to_the_largest_number_one_rounding_may_overflow(
    oracle: float, right: list[float], wrong: list[float]
) -> None:
    assert [compared([got], [oracle], torch.float16).agrees for got in right] == [True] * len(right)
    assert [compared([got], [oracle], torch.float16).agrees for got in wrong] == [False] * len(wrong)


@pytest.mark.parametrize("oracle", [70000.0, -1e300])
def test_far_beyond_the_largest_number_only_infinity_is_right(oracle: float) -> None:
    sign = math.copysign(1, oracle)
    assert compared([sign * INF], [oracle], torch.float16).agrees
    assert not compared([sign * 65504.0], [oracle], torch.float16).agrees


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_sign_of_zero_does_not_matter(dtype: torch.dtype) -> None:
    assert compared([-0.0, 0.0], [0.0, -0.0], dtype).agrees


def test_a_zero_of_a_copy_keeps_its_sign() -> None:
    exact = torch.tensor([0.0, -0.0, -0.0, 1.0]).double()
    told = Expected("out", exact, torch.float16, ulp(exact, torch.float16) / 2, signed=True)
    found = compare(torch.tensor([0.0, 0.0, -0.0, 1.0], dtype=torch.float16), told)
    assert (found.wrong.tolist(), found.worst) == ([False, True, False, False], INF)
    assert [(str(one.expected), str(one.got)) for one in describe(found, told).first] == [("-0.0", "0.0")]


# -- tolerance -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ulps", [1, 2, 7])
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_tolerance_is_allowed_and_not_one_ulp_more(ulps: int, dtype: torch.dtype) -> None:
    step = torch.finfo(dtype).eps
    within, beyond = (
        compared([1 + ulps * step], [1.0], dtype, ulps=ulps),
        compared([1 + (ulps + 1) * step], [1.0], dtype, ulps=ulps),
    )
    assert within.agrees
    assert within.worst == 1
    assert not beyond.agrees
    assert beyond.worst == (ulps + 1) / ulps


def test_an_answer_that_rounds_to_the_oracle_is_right_and_still_says_its_error() -> None:
    third = compared([1 / 3], [1 / 3], torch.float16, ulps=0.5)
    assert third.agrees
    assert 0 < third.worst <= 1


def test_the_worst_error_is_infinite_where_no_distance_can_be_measured() -> None:
    assert compared([NAN, 1.0], [1.0, 1.0]).worst == INF
    assert compared([INF, 1.0], [1.0, 1.0]).worst == INF


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.sampled_from(FLOATS), st.data())
def test_one_wrong_element_is_found_with_its_index(shape: list[int], dtype: torch.dtype, data: Any) -> None:
    index = tuple(data.draw(st.integers(0, size - 1)) for size in shape)
    oracle = torch.arange(math.prod(shape), dtype=torch.float64).reshape(shape)
    got = oracle.to(dtype)
    got[index] += 4
    told = expected(oracle, dtype)
    mismatch = describe(compare(got, told), told)
    assert (mismatch.count, mismatch.total, mismatch.worst_index) == (1, math.prod(shape), index)
    assert [one.index for one in mismatch.first] == [index]
    assert mismatch.max_abs == 4


# -- integers, booleans, emptiness -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64])
def test_integers_must_be_exact(dtype: torch.dtype) -> None:
    assert compared([1, -7, 63], [1, -7, 63], dtype).agrees
    off = compared([1, -7, 64], [1, -7, 63], dtype)
    assert off.wrong.tolist() == [False, False, True]
    assert off.worst == INF


def test_integers_that_no_float_tells_apart_are_told_apart() -> None:
    assert not compared([2**53 + 1], [2**53], torch.int64).agrees


def test_a_mismatch_of_integers_has_honest_numbers() -> None:
    told = expected([1, 200, 0, 4], torch.int32)
    mismatch = describe(compare(torch.tensor([1, 300, 0, 4], dtype=torch.int32), told), told)
    assert (mismatch.count, mismatch.max_abs, mismatch.max_rel, mismatch.worst_index) == (1, 100, 0.5, (1,))
    assert [(one.expected, one.got, one.allowed) for one in mismatch.first] == [(200, 300, 0)]


def test_booleans_are_compared_as_they_are() -> None:
    told = expected([True, False, True], torch.bool)
    comparison = compare(torch.tensor([True, True, True]), told)
    assert comparison.wrong.tolist() == [False, True, False]
    assert describe(comparison, told).worst_index == (1,)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32])
@pytest.mark.parametrize("shape", [(0,), (0, 7), (7, 0)])
def test_an_empty_output_agrees(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    told = expected(torch.zeros(shape), dtype)
    comparison = compare(tensor_of(b"", told), told)
    assert comparison.agrees
    assert comparison.worst == 0
    assert comparison.got.shape == shape


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.bool])
def test_raw_bytes_become_the_tensor_that_they_were(dtype: torch.dtype) -> None:
    tensor = torch.arange(21).reshape(7, 3).to(dtype).t()
    told = expected(torch.zeros(3, 7), dtype)
    assert torch.equal(tensor_of(raw_bytes(tensor), told), tensor)
    assert len(raw_bytes(tensor)) == told.nbytes


# -- describe --------------------------------------------------------------------------------------------------------


def test_a_description_counts_and_keeps_the_first_five() -> None:
    oracle = torch.ones(7, 17, dtype=torch.float64)
    got = oracle.float()
    got[::2, 3] = 1.5
    got[4, 3] = 3.0
    got[1, 5:8] = NAN
    told = expected(oracle)
    mismatch = describe(compare(got, told), told)
    assert (mismatch.output, mismatch.count, mismatch.total) == ("out", 7, 119)
    assert [one.index for one in mismatch.first] == [(0, 3), (1, 5), (1, 6), (1, 7), (2, 3)]
    assert [one.got for one in mismatch.first] == [1.5, "nan", "nan", "nan", 1.5]
    assert {one.expected for one in mismatch.first} == {1.0}
    assert {one.allowed for one in mismatch.first} == {2.0**-23}
    assert mismatch.worst_index == (1, 5)


def test_the_greatest_differences_are_those_of_wrong_elements() -> None:
    told = Expected(
        "out", torch.tensor([100.0, 1.0, 2.0]).double(), torch.float32, torch.tensor([50.0, 0.1, 0.1]).double()
    )
    mismatch = describe(compare(torch.tensor([140.0, 1.5, 2.5]), told), told)
    assert (mismatch.max_abs, mismatch.max_rel, mismatch.worst_index) == (0.5, 0.5, (1,))


def test_numbers_that_json_cannot_hold_are_words() -> None:
    told = expected([-INF, NAN, 1.0])
    mismatch = describe(compare(torch.tensor([INF, 2.0, INF]), told), told)
    assert [(one.expected, one.got) for one in mismatch.first] == [("-inf", "inf"), ("nan", 2.0), (1.0, "inf")]
    assert mismatch.max_abs in ("inf", "nan")


def test_a_scalar_is_described_without_an_index() -> None:
    told = expected(7.0)
    mismatch = describe(compare(torch.tensor(8.0), told), told)
    assert (mismatch.count, mismatch.total, mismatch.worst_index, mismatch.pattern) == (1, 1, (), "all")
    assert mismatch.first[0].index == ()
    assert mismatch.picture is not None
    assert mismatch.picture.cells == ((9,),)


# -- patterns --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "pattern"),
    [
        (marks((), ()), "all"),
        (marks((7,), slice(None)), "all"),
        (marks((3, 17), slice(None)), "all"),
        (marks((17,), 16), "tail"),
        (marks((17,), slice(13, None)), "tail"),
        (marks((17,), slice(0, 3)), "head"),
        (marks((17,), 3, 7, 13), "scattered"),
        (marks((7, 17), (slice(None), slice(13, None))), "tail"),
        (marks((7, 17), (2, slice(13, None)), (5, 16)), "tail"),
        (marks((7, 17), (slice(None), slice(0, 3))), "head"),
        (marks((7, 17), (slice(None), 3), (slice(None), 7)), "columns"),
        (marks((7, 17), 2), "rows"),
        (marks((7, 17), 2, 5), "rows"),
        (marks((7, 17), (2, 3), (5, 13)), "scattered"),
        (marks((2, 3, 17), (1, 1)), "rows"),
        (marks((2, 3, 17), (1, 1, 16)), "tail"),
    ],
)
def test_where_an_output_is_wrong_has_a_name(wrong: Tensor, pattern: str) -> None:
    assert pattern_of(wrong) == pattern


@pytest.mark.parametrize("rows", [slice(5, None), slice(0, 2)])
def test_the_last_or_first_rows_are_said_in_words_that_a_report_knows(rows: slice) -> None:
    told = expected(torch.ones(7, 17))
    got = torch.ones(7, 17)
    got[rows] = 2
    text = how_wrong(describe(compare(got, told), told))
    assert "in whole rows" in text or "only at the" in text


# -- pictures --------------------------------------------------------------------------------------------------------

SHAPES = [(1,), (7,), (64,), (65,), (1000,), (24, 64), (25, 65), (500, 1000), (3, 17, 130), (5000, 3)]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_picture_is_small_and_covers_everything(shape: tuple[int, ...]) -> None:
    picture = picture_of(torch.ones(shape, dtype=torch.bool))
    rows, columns = math.prod(shape[:-1]), shape[-1]
    assert len(picture.cells) <= 24
    assert {len(row) for row in picture.cells} == {-(-columns // picture.columns_per_cell)}
    assert len(picture.cells[0]) <= 64
    assert (len(picture.cells) - 1) * picture.rows_per_cell < rows <= len(picture.cells) * picture.rows_per_cell
    assert {cell for row in picture.cells for cell in row} == {9}
    assert picture.shape == shape


@settings(max_examples=50)
@given(st.sampled_from(SHAPES), st.data())
def test_a_single_wrong_element_darkens_its_cell_and_no_other(shape: tuple[int, ...], data: Any) -> None:
    at = data.draw(st.integers(0, math.prod(shape) - 1))
    wrong = torch.zeros(shape, dtype=torch.bool)
    wrong.view(-1)[at] = True
    picture = picture_of(wrong)
    row, column = divmod(at, shape[-1])
    dark = {(i, j) for i, cells in enumerate(picture.cells) for j, cell in enumerate(cells) if cell}
    assert dark == {(row // picture.rows_per_cell, column // picture.columns_per_cell)}


def test_a_cell_is_as_dark_as_its_share_is_wrong() -> None:
    wrong = marks((1, 640), (0, slice(0, 10)), (0, slice(10, 15)), (0, 20))
    assert picture_of(wrong).cells[0][:4] == (9, 5, 1, 0)


# -- tiles -----------------------------------------------------------------------------------------------------------


def tile_words(shape: tuple[int, ...], index: tuple[int, ...], *launches: LaunchInfo) -> str:
    told = expected(torch.ones(shape))
    got = torch.ones(shape)
    got[index] = 2
    return describe(compare(got, told), told, launches).tile


def test_the_tile_of_the_first_wrong_element_is_named_where_a_launch_reveals_it() -> None:
    launch = LaunchInfo("kernel", (8,), {"BLOCK": 64})
    assert tile_words((500,), (70,), launch) == "tile 1 of 8 along axis 0 (BLOCK=64)"
    assert tile_words((500,), (499,), launch) == "tile 7 of 8 along axis 0 (BLOCK=64)"


def test_a_tile_of_a_matrix_is_named_along_both_axes() -> None:
    launch = LaunchInfo("kernel", (4, 3), {"BLOCK_M": 16, "BLOCK_N": 32, "WARPS": 4})
    assert tile_words((63, 70), (17, 69), launch) == (
        "tile 1 of 4 along axis 0 (BLOCK_M=16), tile 2 of 3 along axis 1 (BLOCK_N=32)"
    )


def test_one_dimension_of_the_grid_cuts_one_axis_only() -> None:
    launch = LaunchInfo("kernel", (2, 1), {"BLOCK_M": 64})
    assert tile_words((1, 100, 128), (0, 10, 3), launch) == "tile 0 of 2 along axis 1 (BLOCK_M=64)"


@pytest.mark.parametrize(
    ("shape", "grid", "constants", "words"),
    [
        # One program for each tile of a flat grid; steps along K cut nothing.
        (
            (128, 256),
            (8,),
            {"BM": 64, "BN": 64, "BK": 32},
            "tile 0 of 2 along axis 0 (64 elements), tile 1 of 4 along axis 1 (64 elements)",
        ),
        (
            (128, 256),
            (8,),
            {"BK": 32, "BM": 64, "BN": 64},
            "tile 0 of 2 along axis 0 (64 elements), tile 1 of 4 along axis 1 (64 elements)",
        ),
        # Eight programs for eight heads, or for pieces of them.
        ((4, 2, 64), (4, 2), {"SPLITS": 16}, ""),
        ((4, 2, 64, 32), (4, 8), {"ROWS": 16, "D": 32}, "tile 0 of 4 along axis 2 (ROWS=16)"),
        # Two constants that may be the rows, and two ways to cut both axes.
        ((64, 64), (4,), {"ROWS": 16, "COLUMNS": 16}, "tile 0 of 4 along axis 0 (16 elements)"),
        ((64, 64), (8,), {"ROWS": 16, "COLUMNS": 32}, ""),
        # Programs share a tile.
        ((128, 256), (8, 3), {"BM": 64, "BN": 64}, ""),
    ],
)
def test_a_constant_is_named_where_it_makes_as_many_tiles_as_there_are_programs(
    shape: tuple[int, ...], grid: tuple[int, ...], constants: dict[str, int], words: str
) -> None:
    index = (0,) * (len(shape) - 1) + (shape[-1] // 2 - 1,)
    assert tile_words(shape, index, LaunchInfo("kernel", grid, constants)) == words


@pytest.mark.parametrize(
    ("shape", "grid", "tile"),
    [
        ((500,), (8,), (0, 64)),
        ((63, 70), (4, 3), (16, 32)),
        ((1, 1, 63, 70), (4, 3), (16, 32)),
        # Rows are all axes but the last: a cut that is ragged in each head is no even grid over all of them.
        ((2, 63, 70), (4, 3), (0, 32)),
        ((2, 64, 70), (4, 3), (16, 32)),
        ((500,), (7,), (0, 0)),
    ],
)
def test_the_picture_knows_the_tiles_that_make_an_even_grid(
    shape: tuple[int, ...], grid: tuple[int, ...], tile: tuple[int, int]
) -> None:
    told, got = expected(torch.ones(shape)), torch.ones(shape)
    got.view(-1)[0] = 2
    constants = {"BLOCK": 64} if len(shape) == 1 else {"BLOCK_M": 16, "BLOCK_N": 32}
    picture = describe(compare(got, told), told, [LaunchInfo("kernel", grid, constants)]).picture
    assert picture is not None
    assert (picture.tile_rows, picture.tile_columns) == tile


@pytest.mark.parametrize(
    "launch",
    [
        LaunchInfo("kernel", (7,), {"BLOCK": 64}),
        LaunchInfo("kernel", (1,), {"BLOCK": 1024}),
        LaunchInfo("kernel", (500,), {"BLOCK": 1}),
        LaunchInfo("kernel", (8,), {"BLOCK": -64, "OTHER": 0}),
        LaunchInfo("kernel", (), {}),
    ],
)
def test_no_tile_is_named_where_the_launch_does_not_fit_the_output(launch: LaunchInfo) -> None:
    assert tile_words((500,), (70,), launch) == ""


def test_no_tile_is_named_where_programs_write_the_same_elements() -> None:
    wrote = TensorFootprint("y", (16, 8), 128, 0, 128, 128, 4, 128, 0, 0, (), (1, 1), (), "")
    launch = LaunchInfo("kernel", (1, 1, 4), {"SPLIT_K": 4})
    assert tile_words((16, 8), (0, 3), launch) == "tile 0 of 4 along axis 0 (SPLIT_K=4)"
    assert tile_words((16, 8), (0, 3), replace(launch, footprint=Footprint(4, 0, 1, (wrote,)))) == ""


def test_a_tile_s_name_from_the_submission_is_cleaned() -> None:
    words = tile_words((500,), (70,), LaunchInfo("kernel", (8,), {"\x1b[31mBLOCK\u202e": 64}))
    assert "\x1b" not in words
    assert "\u202e" not in words
