"""What wrong values look like: every rule on small outputs made for it, and silence where nothing is to be seen."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from grader.diagnosis.kinds import NAMEABLE
from grader.diagnosis.patterns import Answer, Reach, clues_of
from grader.judge.clue import Clue
from grader.judge.compare import compare
from grader.judge.truth import Expected

GENERATOR = torch.Generator().manual_seed(7)
RIGHT = torch.randn(16, 32, generator=GENERATOR, dtype=torch.float64)
X = torch.randn(16, 32, generator=GENERATOR)
FRESH = math.nan
# The bytes around an argument are all ones.
AROUND = torch.tensor([-1], dtype=torch.int32).view(torch.float32)


def expected(value: Tensor = RIGHT, dtype: torch.dtype = torch.float32, name: str = "y") -> Expected:
    return Expected(name, value, dtype, value.abs().nan_to_num(1.0, 1.0, 1.0) * 1e-6 + 1e-6)


def answer(got: Tensor, output: Expected, before: Tensor | None = None) -> Answer:
    return Answer(got, compare(got, output).wrong, output, before)


def clues(got: Tensor, value: Tensor = RIGHT, before: Tensor | None = None, **inputs: Tensor) -> list[Clue]:
    output = expected(value, got.dtype)
    return clues_of([answer(got, output, before)], list((inputs or {"x": X}).items()))


def likeliest(found: list[Clue]) -> str:
    assert all(clue.kind in NAMEABLE for clue in found), found
    return max(found, key=lambda clue: clue.weight).kind if found else ""


def right(**changes: object) -> Tensor:
    return RIGHT.float().clone()


# -- something else --------------------------------------------------------------------------------------------------


def test_zeros_a_copy_and_an_exchange_of_axes_are_seen() -> None:
    assert likeliest(clues(torch.zeros(16, 32))) == "zeros"
    assert likeliest(clues(X)) == "copies_input"
    assert "It equals `x` bit for bit." in [clue.help for clue in clues(X)]
    square = RIGHT[:, :16]
    (clue,) = clues(square.T.float().contiguous(), square)
    assert (clue.kind, clue.confirmed) == ("axes_exchanged", True)


def test_an_input_that_is_the_right_answer_is_no_copy_where_the_rest_was_never_stored() -> None:
    wanted = X.double().masked_fill(torch.arange(16)[:, None] < 4, 0.0)
    fresh = X.masked_fill(torch.arange(16)[:, None] < 4, math.nan)
    found = clues_of([answer(fresh, Expected("y", wanted, torch.float32, wanted.abs() * 1e-6))], [("x", fresh)])
    assert "copies_input" not in {clue.kind for clue in found}


def test_zeros_of_the_other_sign_are_seen() -> None:
    value = RIGHT.float().double()
    value[3, 4:9] = -0.0
    output = Expected("y", value, torch.float32, torch.full_like(value, 1e-9), signed=True)
    (clue,) = clues_of([answer((value + 0).float(), output)], [("x", X)])
    assert (clue.kind, clue.confirmed, clue.title) == ("value_shortcut", True, "A zero loses its sign")


def test_values_that_are_all_some_of_an_input_s_are_its_copies() -> None:
    got = X.flip(0)[:, torch.arange(32) // 2]
    assert likeliest(clues(got)) == "copies_input"


@pytest.mark.parametrize("by", [1, -1])
def test_values_beside_their_places_are_shifted(by: int) -> None:
    (clue,) = clues(torch.roll(RIGHT.float(), by, 1))
    assert (clue.kind, clue.confirmed) == ("position_shifted", True)
    assert "along axis 1" in clue.evidence


def test_what_belongs_into_another_output_is_mixed_up() -> None:
    first, second = expected(name="k"), expected(X.double(), name="v")
    got = [answer(RIGHT.float(), first), answer(RIGHT.float(), second)]
    (clue,) = clues_of(got, [])
    assert (clue.kind, clue.confirmed) == ("operand_mixed_up", True)


# -- what was not stored ---------------------------------------------------------------------------------------------


def never_stored(*places: slice) -> Tensor:
    got = right()
    got[places] = FRESH
    return got


def test_an_end_that_was_never_stored_to_is_a_remainder() -> None:
    found = clues(never_stored(slice(None), slice(24, None)))
    assert likeliest(found) == "remainder_skipped"
    assert "The last 8 of 32 along axis 1" in found[0].evidence


def test_an_end_as_long_as_all_before_it_is_no_remainder() -> None:
    assert likeliest(clues(never_stored(slice(None), slice(3, None)))) == "not_all_covered"


def test_one_last_column_that_was_never_stored_to_is_a_bound() -> None:
    assert likeliest(clues(never_stored(slice(None), slice(31, None)))) == "last_left_out"


@pytest.mark.parametrize(("programs", "block"), [(3, 4), (2, 6)])
def test_programs_that_end_before_the_end_are_told_in_numbers(programs: int, block: int) -> None:
    got = never_stored(slice(12, None))
    others = (Reach("WARPS", programs, 8), Reach("BLOCK", programs, block))
    first, *_ = clues_of([answer(got, expected())], [("x", X)], reaches=others)
    # 4 rows are left: less than a block of 6, and a whole block of 4.
    assert (first.evidence == "2 programs × 6 elements (BLOCK) cover 12 of 16.") == (block == 6)
    assert (first.help == "Round the number of programs up: triton.cdiv(n, BLOCK).") == (block == 6)


def test_whole_blocks_that_no_program_takes_are_work_that_is_not_shared_out() -> None:
    found = clues_of([answer(never_stored(slice(12, None)), expected())], [("x", X)], reaches=[Reach("BLOCK", 3, 4)])
    assert likeliest(found) == "not_all_covered"
    assert found[0].evidence == "3 programs × 4 elements (BLOCK) cover 12 of 16."
    several = [Reach("BLOCK_K", 6, 2), Reach("BLOCK_M", 2, 6)]
    found = clues_of([answer(never_stored(slice(12, None)), expected())], [("x", X)], reaches=several)
    assert likeliest(found) == "remainder_skipped"


def test_ends_of_two_axes_that_are_missing_are_remainders_of_both() -> None:
    got = never_stored(slice(12, None))
    got[:, 24:] = FRESH
    found = clues_of([answer(got, expected())], [("x", X)], reaches=[Reach("BLOCK_M", 2, 6), Reach("BLOCK_N", 2, 12)])
    assert likeliest(found) == "remainder_skipped"
    assert [one.evidence for one in found if one.weight == 0.9] == [
        "2 programs × 6 elements (BLOCK_M) cover 12 of 16.",
        "2 programs × 12 elements (BLOCK_N) cover 24 of 32.",
    ]


def test_programs_of_a_flat_grid_that_cannot_take_the_other_axis_tell_nothing() -> None:
    got = answer(never_stored(slice(12, None)), expected())
    found = clues_of([got], [("x", X)], reaches=[Reach("BLOCK_K", 3, 4, 8)])
    assert all("BLOCK_K" not in clue.evidence for clue in found)


def test_a_last_round_of_all_programs_that_is_missing_is_a_remainder() -> None:
    found = clues_of([answer(never_stored(slice(12, None)), expected())], [("x", X)], reaches=[Reach("BLOCK", 3, 2)])
    assert likeliest(found) == "remainder_skipped"
    assert found[0].evidence.endswith("cover 6 in a step of a loop, and 2 whole steps were stored.")


def test_nothing_but_the_nan_of_fresh_memory_after_many_stores_was_not_cleared() -> None:
    found = clues_of([answer(never_stored(slice(None)), expected())], [("x", X)], filled=True)
    assert likeliest(found) == "not_cleared"


def test_nothing_but_nan_from_kernels_that_read_inputs_alone_was_computed() -> None:
    nan = [answer(never_stored(slice(None)), expected())]
    found = clues_of(nan, [("x", X.clamp(-4, 4))], filled=True, rereads=False)
    assert likeliest(found) == "inf_minus_inf"
    assert "not_cleared" not in {clue.kind for clue in found}


def test_nan_from_ordinary_numbers_is_hardly_an_overflow() -> None:
    got = right()
    got[:, :4] = -math.nan
    small, large = (
        next(one.weight for one in clues(got, x=x) if one.kind == "overflow") for x in (X.clamp(-4, 4), 1e4 * X)
    )
    assert small == large / 2


def test_holes_belong_to_nobody() -> None:
    assert likeliest(clues(never_stored(slice(None, None, 2), slice(4, 8)))) == "not_all_covered"


def test_nan_that_was_stored_is_not_taken_for_memory_that_nobody_stored_to() -> None:
    got = never_stored(slice(8, None))
    found = clues_of([answer(got, expected())], [("x", X)], filled=True)
    assert not any("never stored" in clue.evidence for clue in found)
    assert likeliest(found) not in ("not_all_covered", "remainder_skipped", "size_assumed")


def test_nan_of_the_memory_around_an_argument_was_read() -> None:
    got = right()
    got[:, 30:] = AROUND
    assert likeliest(clues(got)) == "missing_mask"
    got[:] = AROUND
    assert {"missing_mask", "start_ignored", "strides_ignored"} == {clue.kind for clue in clues(got)}


def test_where_nobody_read_around_an_argument_it_is_masked_lanes_without_a_value() -> None:
    got = right()
    got[:, 30:] = AROUND
    clue, other = clues_of([answer(got, expected())], [("x", X)], watched=True)
    assert (clue.kind, clue.confirmed, other.kind) == ("padding_counted", False, "start_ignored")
    assert clue.weight > other.weight
    assert "`other=`" in clue.title


def test_a_remainder_is_less_than_a_block() -> None:
    found = {clue.kind: clue.weight for clue in clues(never_stored(slice(4, None)))}
    assert found["size_assumed"] > found["remainder_skipped"]


# -- in place --------------------------------------------------------------------------------------------------------


def test_rows_of_which_most_was_never_stored_have_no_factor() -> None:
    got = (RIGHT * torch.linspace(1.5, 2.5, 16)[:, None]).float()
    assert likeliest(clues(got)) == "wrong_factor"
    got[:, 8:] = math.nan
    found = clues(got)
    assert "wrong_factor" not in {clue.kind for clue in found}
    assert any("along axis 1" in clue.evidence and "never stored" in clue.evidence for clue in found)


def test_what_was_there_before_and_is_added_to_was_not_cleared() -> None:
    before = torch.randn(16, 32, generator=GENERATOR)
    (clue,) = clues((RIGHT + before).float(), before=before)
    assert (clue.kind, clue.confirmed) == ("not_cleared", True)


def test_memory_in_which_nothing_changed_was_never_stored_to() -> None:
    before = torch.full(RIGHT.shape, math.nan)
    right = before.double()
    right[3:5] = RIGHT[3:5]
    found = clues(before.clone(), right, before=before)
    assert likeliest(found) == "zeros"
    assert likeliest(clues(torch.cat((before[:4], right[4:].float())), right, before=before)) == "not_all_covered"


def test_what_was_to_stay_and_changed_is_a_store_too_many() -> None:
    before = RIGHT.float()
    got = before.clone()
    got[:, 20:] = 0.0
    assert likeliest(clues(got, before=before)) == "writes_beyond"


def test_memory_of_nothing_but_nan_had_no_values_to_keep() -> None:
    right = RIGHT.clone()
    right[3:5] = math.nan
    found = clues(right.nan_to_num(0.0).float(), right, before=torch.full(RIGHT.shape, math.nan))
    assert "writes_beyond" not in {clue.kind for clue in found}


# -- numbers ---------------------------------------------------------------------------------------------------------


def test_a_limit_is_seen_where_values_stop_at_it() -> None:
    value = RIGHT * 1e5
    (clue,) = clues(value.clamp(-65504.0, 65504.0).float(), value)
    assert (clue.kind, clue.confirmed) == ("clamped", True)


@pytest.mark.parametrize("factor", [0.5, -1.0, 32**-0.5])
def test_a_constant_factor_is_named(factor: float) -> None:
    found = clues((factor * RIGHT).float())
    assert likeliest(found) == "wrong_factor"
    assert f"{factor:.4g} times" in found[0].evidence


def test_infinities_where_numbers_belong_overflowed() -> None:
    got = right()
    got[3] = math.inf
    assert likeliest(clues(got)) == "overflow"


def test_wrong_only_where_infinities_go_in_is_a_shortcut() -> None:
    value = RIGHT.clone()
    value[2, 3] = math.inf
    got = value.float()
    got[2, 3] = 7.0
    assert likeliest(clues(got, value)) == "value_shortcut"


def test_values_with_the_bits_of_a_coarser_dtype_were_rounded_early() -> None:
    (clue,) = clues(RIGHT.half().float())
    assert (clue.kind, clue.confirmed) == ("rounded_intermediate", True)


def test_small_errors_of_float32_products_look_like_tf32_and_others_do_not() -> None:
    noise = 1 + 3e-4 * torch.randn(16, 32, generator=GENERATOR, dtype=torch.float64)
    got = (RIGHT * noise).float()
    output = expected()
    assert likeliest(clues_of([answer(got, output)], [("x", X)])) == "tf32"
    kinds = {clue.kind for clue in clues_of([answer(got, output)], [("x", X)], multiplies=False)}
    assert kinds == {"rounded_intermediate", "low_precision_sum"}
    assert "tf32" not in {clue.kind for clue in clues_of([answer(got, output)], [("x", X.half())])}


def test_an_early_rounding_is_no_conversion_to_the_inputs_dtype_where_that_is_float32() -> None:
    noise = 1 + 3e-3 * torch.randn(16, 32, generator=GENERATOR, dtype=torch.float64)
    helps = [
        next(clue.help for clue in clues((RIGHT * noise).to(dtype)) if clue.kind == "rounded_intermediate")
        for dtype in (torch.float32, torch.float16)
    ]
    assert "too few digits" in helps[0]
    assert helps[1] == ""


def test_wrong_numbers_at_the_end_look_like_a_mask() -> None:
    got = right()
    got[:, 29:] += 1.0
    assert likeliest(clues(got)) == "missing_mask"


def test_wrong_numbers_without_any_pattern_point_nowhere() -> None:
    got = RIGHT + torch.randn(16, 32, generator=GENERATOR, dtype=torch.float64)
    assert clues(got.float()) == []


def test_right_answers_and_integers_point_nowhere() -> None:
    assert clues(right()) == []
    whole = torch.arange(9)
    output = Expected("n", whole, torch.int64, torch.zeros(9))
    assert clues_of([answer(whole + 1, output)], []) == []


def test_small_errors_of_one_row_alone_are_hardly_a_rounding_s() -> None:
    got = right()
    got[3] += 3e-3
    assert all(clue.weight < 0.3 for clue in clues(got) if clue.kind in ("rounded_intermediate", "low_precision_sum"))
    assert max(clue.weight for clue in clues(RIGHT.float() + 3e-3 * X) if clue.kind == "rounded_intermediate") >= 0.4


@pytest.mark.parametrize(("is_bad", "words"), [(RIGHT > 0.5, "below"), (RIGHT < -0.4, "above")])
def test_numbers_that_are_wrong_beyond_a_limit_alone_are_a_shortcut(is_bad: Tensor, words: str) -> None:
    found = clues((RIGHT + 1e-3 * is_bad).float())
    assert likeliest(found) == "value_shortcut"
    (clue,) = (one for one in found if one.kind == "value_shortcut")
    assert f"No element of y {words}" in clue.evidence


def test_a_limit_says_nothing_where_the_place_parts_right_from_wrong() -> None:
    ramp = torch.arange(512, dtype=torch.float64).reshape(16, 32)
    got = ramp + 1e-3 * (ramp >= 448)
    assert "value_shortcut" not in {clue.kind for clue in clues(got.float(), ramp)}


def test_infinities_where_zero_alone_is_right_have_no_limit() -> None:
    got = torch.zeros(16, 32)
    got[3:9, ::3] = math.inf
    found = {clue.kind for clue in clues(got, torch.zeros(16, 32).double())}
    assert "overflow" in found
    assert "value_shortcut" not in found


def test_errors_as_large_as_the_values_are_no_rounding() -> None:
    # Small values lie beside large ones, as in a softmax.
    value = torch.rand(16, 32, generator=GENERATOR, dtype=torch.float64) * 1e-3
    value[:, 0] = 1.0
    got = value.clone()
    got[:, 1:] *= 0.3
    kinds = {clue.kind for clue in clues(got.float(), value)}
    assert not kinds & {"rounded_intermediate", "low_precision_sum", "tf32"}


def test_a_factor_of_each_row_is_seen_and_told_with_its_range() -> None:
    factors = torch.linspace(0.5, 0.9, 16)[:, None]
    (clue,) = [one for one in clues(right() * factors) if one.kind == "wrong_factor"]
    assert clue.title == "Looks like one number of each row that is wrong, such as its sum"
    assert clue.evidence.endswith("is right except for one factor: from 0.5 in one row to 0.9 in another.")


def test_rows_of_zeros_show_no_factor() -> None:
    got = right()
    got[4:, :4] = 0.0
    assert "wrong_factor" not in [one.kind for one in clues(got)]


def test_errors_without_a_common_factor_in_a_row_show_no_factor_of_rows() -> None:
    assert "wrong_factor" not in [one.kind for one in clues(right() + torch.linspace(0.5, 0.9, 16)[:, None])]


def test_a_rounded_sum_of_each_row_is_no_factor_and_a_sum_that_is_always_too_large_is_one() -> None:
    near = 1 + torch.linspace(-0.002, 0.002, 16)[:, None]
    assert "wrong_factor" not in [one.kind for one in clues(right() * near)]
    assert likeliest(clues(right() * (near + 0.003))) == "wrong_factor"


def test_the_programs_of_a_flat_grid_share_the_tiles_of_two_axes() -> None:
    got = answer(never_stored(slice(None), slice(16, None)), expected())
    # 4 tiles of 4 rows, and 2 of 8 columns.
    flat = [Reach("TILE_N", 8, 8, 4), Reach("TILE_M", 8, 4, 8)]
    found = clues_of([got], [("x", X)], reaches=flat)
    assert likeliest(found) == "not_all_covered"
    assert found[0].evidence == "2 programs × 8 elements (TILE_N) cover 16 of 32."
