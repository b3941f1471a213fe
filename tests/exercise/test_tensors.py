"""Families of values and layouts: what their names promise, and the same bits wherever they are built."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import SimpleNamespace

import pytest
import torch
from torch import Generator, Tensor

from grader.exercise import tensors
from grader.exercise.tensors import (
    bytes_of,
    dtype_of,
    far_apart,
    one_apart,
    patched,
    starting_at,
    values,
    with_gaps,
)
from grader.sandbox import usage

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
FINITE = ("normal", "large", "tiny", "small", "constant", "one_hot", "shifted", "extreme", "negative", "lowest")
HIDING = ("masked", "late", "masked_negative")
FAMILIES = (*FINITE, *HIDING, "nonfinite", "bits")


def drawn(family: str, shape: tuple[int, ...] = (17, 500), dtype: torch.dtype = torch.float32, seed: int = 7) -> Tensor:
    return values(family, shape, dtype, Generator().manual_seed(seed))


def same_bits(left: Tensor, right: Tensor) -> bool:
    return left.dtype == right.dtype and torch.equal(
        left.contiguous().view(torch.uint8), right.contiguous().view(torch.uint8)
    )


@pytest.mark.parametrize("name", ["float31", "Tensor", "nn", "", None, 7])
def test_what_is_no_dtype_is_refused(name: object) -> None:
    with pytest.raises(TypeError) as refused:
        dtype_of(name)
    assert str(refused.value) == f"a dtype must be named as in torch, got {name!r}"


@pytest.mark.parametrize("family", ["gaussian", "_normal", None])
def test_an_unknown_family_is_refused_with_those_there_are(family: object) -> None:
    with pytest.raises(ValueError, match="a family of values must be one of") as refused:
        values(family, (7,), torch.float32, Generator())
    assert str(refused.value).endswith(f"got {family!r}")
    assert all(name in str(refused.value) for name in FAMILIES)


def test_a_dtype_is_found_by_its_name_in_torch() -> None:
    assert [dtype_of(name) for name in ("float32", "float16", "bfloat16")] == list(DTYPES)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shape", [(1,), (7,), (1, 1), (3, 17), (2, 3, 5)])
def test_every_family_has_the_shape_and_dtype_that_were_asked_for(
    family: str, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    found = drawn(family, shape, dtype)
    assert (tuple(found.shape), found.dtype) == (shape, dtype)
    assert found.is_contiguous()


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_every_family_can_be_empty(shape: tuple[int, ...]) -> None:
    assert [drawn(family, shape).shape for family in FAMILIES] == [shape] * len(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(family: str) -> None:
    assert same_bits(drawn(family), drawn(family))
    assert not same_bits(drawn(family), drawn(family, seed=8))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FINITE)
def test_values_are_finite_unless_their_family_is_about_others(family: str, dtype: torch.dtype) -> None:
    assert bool(drawn(family, dtype=dtype).isfinite().all())


@pytest.mark.parametrize("dtype", DTYPES)
def test_normal_values_have_mean_zero_and_variance_one(dtype: torch.dtype) -> None:
    found = drawn("normal", dtype=dtype).double()
    assert abs(float(found.mean())) < 0.05
    assert abs(float(found.std()) - 1) < 0.05


@pytest.mark.parametrize("dtype", DTYPES)
def test_large_values_reach_a_quarter_of_the_range_and_no_more(dtype: torch.dtype) -> None:
    found = drawn("large", dtype=dtype).double()
    top = min(torch.finfo(dtype).max / 4, 1e30)
    assert 0.95 * top < float(found.max()) <= 1.01 * top
    assert -1.01 * top <= float(found.min()) < -0.95 * top
    assert bool((found.to(dtype) + found.to(dtype) + found.to(dtype)).isfinite().all())


@pytest.mark.parametrize("dtype", DTYPES)
def test_tiny_values_lie_around_the_smallest_normal_number(dtype: torch.dtype) -> None:
    size = drawn("tiny", dtype=dtype).double().abs()
    least = torch.finfo(dtype).tiny
    assert bool((size < 64 * least).all())
    assert bool(((size > 0) & (size < least)).any())
    assert bool((size > least).any())


@pytest.mark.parametrize("family", ["normal", "constant"])
def test_a_single_element_lies_as_any_matrix_does(family: str) -> None:
    assert values(family, (1, 1), torch.float32, torch.Generator().manual_seed(1)).stride() == (1, 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_constant_is_one_value(dtype: torch.dtype) -> None:
    found = drawn("constant", dtype=dtype)
    assert len(found.unique()) == 1
    assert float(found.flatten()[0]) != 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_hot_rows_hold_a_single_one(dtype: torch.dtype) -> None:
    found = drawn("one_hot", (17, 63), dtype)
    assert bool((found.sum(-1) == 1).all())
    assert found.unique().tolist() == [0, 1]
    assert len(found.argmax(-1).unique()) > 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_shifted_values_lie_around_one_hundred(dtype: torch.dtype) -> None:
    found = drawn("shifted", dtype=dtype).double()
    assert abs(float(found.mean()) - 100) < 0.5
    assert float(found.min()) > 90


@pytest.mark.parametrize("dtype", DTYPES)
def test_extreme_values_are_ten_thousand_of_both_signs(dtype: torch.dtype) -> None:
    most = float(torch.tensor(1e4).to(dtype))
    assert drawn("extreme", dtype=dtype).double().unique().tolist() == [-most, most]


@pytest.mark.parametrize("dtype", DTYPES)
def test_nonfinite_values_hold_every_kind_and_are_mostly_finite(dtype: torch.dtype) -> None:
    found = drawn("nonfinite", dtype=dtype)
    for kind in (found.isnan(), found.isposinf(), found.isneginf()):
        assert 0.005 < float(kind.double().mean()) < 0.05
    assert 0.05 < float((found == 0).double().mean()) < 0.15
    assert float(found.isfinite().double().mean()) > 0.9


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_are_numbers_of_every_kind_and_size(dtype: torch.dtype) -> None:
    found = drawn("bits", dtype=dtype, shape=(100, 5000))
    size, least = found.abs(), torch.finfo(dtype).tiny
    kinds = (found.isnan(), (size > 0) & (size < least), size > 1 / least**0.5, (found == 0) & found.signbit())
    assert all(bool(kind.any()) for kind in kinds)
    assert float(found.isfinite().double().mean()) > 0.9


@pytest.mark.parametrize("family", HIDING)
@pytest.mark.parametrize("columns", [1, 2, 3, 7, 63, 500])
def test_rows_are_never_hidden_whole(columns: int, family: str) -> None:
    found = drawn(family, (1000, columns))
    hidden = found.isneginf()
    assert not bool(hidden.all(-1).any())
    assert bool((hidden | found.isfinite()).all())
    assert bool(hidden.any()) == (columns > 1)


def test_masked_rows_hide_at_most_half_of_their_elements() -> None:
    hidden = drawn("masked", (1000, 63)).isneginf()
    assert int(hidden.sum(-1).max()) <= 32


def test_late_rows_hide_half_of_their_elements_or_more_from_their_start_on() -> None:
    hidden = drawn("late", (1000, 64)).isneginf()
    counts = hidden.sum(-1)
    assert int(counts.min()) >= 32
    assert torch.equal(hidden, torch.arange(64) < counts[:, None])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_lowest_values_lie_below_whatever_padding_is_finite_and_usual(dtype: torch.dtype) -> None:
    found, top = drawn("lowest", dtype=dtype).double(), torch.finfo(dtype).max / 2
    assert -1.01 * top <= float(found.min()) < float(found.max()) <= -0.87 * top


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "seen", [lambda x: x, lambda x: x[::4], lambda x: x[3:4], lambda x: x[::300][1:], lambda x: x.view(2, 250)[:1, 7:8]]
)
def test_the_bytes_of_a_view_are_those_of_its_elements(seen: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    view = seen(drawn("normal", (500,), dtype))
    packed = torch.empty(view.numel(), dtype=dtype)
    packed[:] = view.flatten()
    assert torch.equal(bytes_of(view), packed.view(torch.uint8))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", [0, 1, 3, 7, 63])
def test_a_slice_keeps_the_values_and_starts_where_it_was_told(offset: int, dtype: torch.dtype) -> None:
    vector = drawn("normal", (500,), dtype)
    found = starting_at(vector, offset)
    assert same_bits(found, vector)
    assert (found.storage_offset(), found.stride()) == (offset, (1,))
    assert found.data_ptr() != vector.data_ptr()


def test_a_slice_of_nothing_is_nothing() -> None:
    assert starting_at(torch.empty(0), 7).shape == (0,)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gap", [0, 1, 13, 64])
def test_a_row_gap_keeps_the_values_and_sets_the_rows_apart(gap: int, dtype: torch.dtype) -> None:
    matrix = drawn("normal", (7, 63), dtype)
    found = with_gaps(matrix, 0, gap)
    assert same_bits(found, matrix)
    assert found.stride() == (63 + gap, 1)
    assert found.is_contiguous() == (gap == 0)


def test_gaps_behind_each_slice_of_an_axis_hold_nan_and_leave_the_start_where_it_was() -> None:
    blocks = drawn("normal", (2, 3, 5, 4), torch.float16)
    for axis, strides in ((0, (61, 20, 4, 1)), (1, (63, 21, 4, 1)), (2, (75, 25, 5, 1))):
        found = with_gaps(blocks, axis, 1)
        assert same_bits(found, blocks)
        assert (found.stride(), found.storage_offset()) == (strides, 0)
        everything = torch.empty(0, dtype=blocks.dtype).set_(found.untyped_storage())
        assert int(everything.isnan().sum()) == everything.numel() - blocks.numel()


def test_one_tensor_lies_apart_and_all_others_as_usual() -> None:
    assert one_apart(("q", "k_new"), "k_new_apart", "bhsd", "sliced") == ("bhsd", "sliced")
    assert one_apart(("q", "k_new"), "bshd", "bhsd", "sliced") == ()
    with pytest.raises(ValueError, match="one of q, k_new, got 'v'"):
        one_apart(("q", "k_new"), "v_apart", "bhsd", "sliced")


@pytest.mark.parametrize("count", [5, 7, 17, 63, 500, 1000])
def test_a_patch_changes_the_middle_third_only(count: int) -> None:
    ones, twos = torch.ones(count), torch.full((count,), 2.0)
    (found,) = patched((ones,), (twos,))
    assert found is ones
    changed = (ones == 2).nonzero().flatten().tolist()
    assert changed == list(range(changed[0], changed[-1] + 1))
    assert count // 3 <= changed[0]
    assert changed[-1] <= 2 * count // 3
    assert abs(len(changed) - count / 3) <= 2
    assert bool((twos == 2).all())


@pytest.mark.parametrize("count", [3, 4])
def test_a_patch_of_a_short_tensor_leaves_its_ends_alone(count: int) -> None:
    ones = torch.ones(count)
    patched((ones,), (torch.full((count,), 2.0),))
    assert (ones[0], ones[-1]) == (1, 1)
    assert 2 in ones


def test_a_patch_counts_the_elements_of_a_matrix_row_by_row() -> None:
    matrix = with_gaps(torch.ones(3, 7), 0, 2)
    patched((matrix,), (torch.full((3, 7), 2.0),))
    assert matrix.sum(1).tolist() in ([7, 14, 7], [7, 14, 8])


def test_a_patch_leaves_integers_and_numbers_alone() -> None:
    table, other = torch.arange(7), torch.zeros(7, dtype=torch.int64)
    assert patched((table, 17, "mean"), (other, 63, "sum")) == (table, 17, "mean")
    assert table.tolist() == list(range(7))


def sum_of(case: Mapping[str, object], generator: Generator) -> tuple[Tensor, Tensor, int]:
    shape = (int(str(case["N"])),)
    x = values(case["values"], shape, dtype_of(case["dtype"]), generator)
    y = values(case["values"], shape, dtype_of(case["dtype"]), generator)
    return starting_at(x, 3), y, shape[0]


SOURCE = SimpleNamespace(sum_of=sum_of)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("patch_seed", [None, 63])
def test_a_case_and_a_seed_give_the_same_bits_every_time(dtype: str, patch_seed: int | None) -> None:
    case = {"N": 1000, "values": "nonfinite", "dtype": dtype}
    torch.manual_seed(1)
    first = tensors.build(SOURCE, "sum_of", case, 17, patch_seed)
    torch.manual_seed(2)
    again = tensors.build(SOURCE, "sum_of", case, 17, patch_seed)
    other = tensors.build(SOURCE, "sum_of", case, 18, patch_seed)
    for i in range(2):
        assert same_bits(first[i], again[i])
        assert not same_bits(first[i], other[i])
    assert first[2] == 1000


def test_a_patched_build_has_the_other_seed_s_values_in_its_middle() -> None:
    case = {"N": 1000, "values": "normal", "dtype": "float16"}
    plain, other = tensors.build(SOURCE, "sum_of", case, 17), tensors.build(SOURCE, "sum_of", case, 63)
    mixed = tensors.build(SOURCE, "sum_of", case, 17, patch_seed=63)
    for base, patch, found in zip(plain[:2], other[:2], mixed[:2], strict=True):
        assert same_bits(found[:333], base[:333])
        assert same_bits(found[334:666], patch[334:666])
        assert same_bits(found[667:], base[667:])


def test_what_follows_from_other_inputs_is_made_anew_after_a_patch() -> None:
    def total(case: Mapping[str, object], generator: Generator) -> tuple[Tensor, Tensor]:
        x = values("normal", (int(str(case["N"])),), torch.float32, generator)
        return x, x.sum()[None]

    def total_following(_: Mapping[str, object], x: Tensor, __: Tensor) -> tuple[Tensor, Tensor]:
        return x, x.sum()[None]

    with_both = SimpleNamespace(total=total, total_following=total_following)
    for source, fits in ((with_both, True), (SimpleNamespace(total=total), False)):
        x, found = tensors.build(source, "total", {"N": 9}, 1, patch_seed=2)
        assert isinstance(x, Tensor)
        assert bool(x.sum() == found) is fits


def test_whole_numbers_alone_are_made_by_their_own_function_from_the_same_seed() -> None:
    def rows_whole_numbers(case: Mapping[str, object], generator: Generator) -> tuple[Tensor]:
        return (torch.randint(9, (int(str(case["N"])),), generator=generator),)

    def rows(case: Mapping[str, object], generator: Generator) -> tuple[Tensor, ...]:
        return *rows_whole_numbers(case, generator), torch.randn(3, generator=generator)

    alone = SimpleNamespace(rows=rows, rows_whole_numbers=rows_whole_numbers)
    both, (lengths,) = tensors.build(alone, "rows", {"N": 4}, 1), tensors.whole_inputs(alone, "rows", {"N": 4}, 1)
    assert isinstance(lengths, Tensor)
    assert isinstance(both[0], Tensor)
    assert lengths.tolist() == both[0].tolist()
    assert len(tensors.whole_inputs(SimpleNamespace(rows=rows), "rows", {"N": 4}, 1)) == len(both)


def test_a_seed_as_large_as_the_command_line_takes_builds_inputs() -> None:
    case = {"N": 7, "values": "normal", "dtype": "float32"}
    assert len(tensors.build(SOURCE, "sum_of", case, 2**64 - 1)) == 3


@pytest.mark.parametrize("axis", [0, 1])
def test_slices_lie_far_apart_and_take_no_memory(axis: int) -> None:
    before = usage.memory_bytes([os.getpid()])
    tensor = torch.arange(60, dtype=torch.float16).view(4, 3, 5)
    apart = far_apart(tensor, axis)
    assert torch.equal(apart, tensor)
    assert apart.stride(axis) < 2**31 <= apart.stride(axis) * (tensor.shape[axis] - 1)
    assert apart.stride(2) == 1
    assert usage.memory_bytes([os.getpid()]) - before < 256 << 20


def test_two_slices_cannot_lie_far_apart() -> None:
    with pytest.raises(ValueError, match="must have at least 3 of them, got 2"):
        far_apart(torch.zeros(2, 9), 0)


def test_a_file_of_an_exercise_imports_what_it_is_given_by_name_and_no_other_exercises_files() -> None:
    oracle = tensors.module_from_text("oracle.py", "def total(x):\n    return sum(x)\n")
    mistakes = tensors.module_from_text("mistakes.py", "from math import pi\nfrom oracle import total\n", oracle)
    assert mistakes.total([1, 2]) == 3
    with pytest.raises(ImportError):
        tensors.module_from_text("mistakes.py", "from oracle import total\n")
