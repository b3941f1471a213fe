"""Derived tolerances: exact spacings, the right neighbours, and nothing for what cannot be measured."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from grader.exercise.model import Tolerance
from grader.judge.tolerance import allowed_error, ulp

# Between them: every float16 and bfloat16, and every exponent of float32 with mantissas of all kinds.
BITS = {
    torch.float16: (torch.int16, range(0x7BFF)),
    torch.bfloat16: (torch.int16, range(0x7F7F)),
    torch.float32: (torch.int32, [*range(70), *range(0x0000_0000, 0x7F7F_FFFF, 65_537), 0x007F_FFFF, 0x0080_0000]),
}


def all_finite(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """(numbers of the dtype, the next larger ones), both as float64."""
    integers, patterns = BITS[dtype]
    bits = torch.tensor(list(patterns), dtype=integers)
    return bits.view(dtype).double(), (bits + 1).view(dtype).double()


def tolerance(**terms: float) -> Tolerance:
    """A tolerance of one term: half an ulp is the least that a tolerance can have."""
    return Tolerance(**{"factor": 0.0, "result_ulps": 0.5, **terms})  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", BITS)
@pytest.mark.parametrize("sign", [1, -1])
def test_an_ulp_is_the_distance_to_the_next_larger_number(dtype: torch.dtype, sign: int) -> None:
    numbers, following = all_finite(dtype)
    assert torch.equal(ulp(sign * numbers, dtype), following - numbers)


@pytest.mark.parametrize(("dtype", "kind"), [(torch.float32, np.float32), (torch.float16, np.float16)])
def test_an_ulp_is_what_numpy_calls_spacing(dtype: torch.dtype, kind: type) -> None:
    numbers, _ = all_finite(dtype)
    expected = np.spacing(numbers.numpy().astype(kind)).astype(np.float64)
    assert np.array_equal(ulp(numbers, dtype).numpy(), expected)


@pytest.mark.parametrize("dtype", BITS)
def test_between_two_numbers_the_ulp_is_that_of_the_smaller(dtype: torch.dtype) -> None:
    numbers, following = all_finite(dtype)
    assert torch.equal(ulp((numbers + following) / 2, dtype), following - numbers)


@pytest.mark.parametrize("dtype", BITS)
def test_an_ulp_never_vanishes_and_never_overflows(dtype: torch.dtype) -> None:
    limits = torch.finfo(dtype)
    odd = torch.tensor([0.0, 1e-300, math.nan, limits.max, 1e300, math.inf, -math.inf], dtype=torch.float64)
    least, most = limits.smallest_normal * limits.eps, limits.eps * 2.0 ** math.floor(math.log2(limits.max))
    assert ulp(odd, dtype).tolist() == [least, least, least, most, most, most, most]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.bool])
def test_integers_are_allowed_no_error(dtype: torch.dtype) -> None:
    value = torch.ones(3, 7, dtype=dtype)
    allowed = allowed_error(value, [value], None, Tolerance(factor=17, result_ulps=63))
    assert torch.equal(allowed, torch.zeros(3, 7, dtype=torch.float64))


@pytest.mark.parametrize("dtype", BITS)
def test_without_an_honest_error_only_the_ulps_of_the_result_are_allowed(dtype: torch.dtype) -> None:
    value = torch.tensor([1.0, 7.0, -63.0, 0.0], dtype=torch.float64)
    allowed = allowed_error(value, [value.to(dtype)], None, Tolerance(result_ulps=3))
    assert torch.equal(allowed, 3 * ulp(value, dtype))


def test_the_largest_honest_error_counts_whoever_made_it() -> None:
    value = torch.ones(1, 7, dtype=torch.float64)
    near, far = (torch.full((1, 7), 1 + 2.0**-n) for n in (20, 10))
    allowed = allowed_error(value, [near, far, near], None, tolerance(factor=4))
    assert torch.equal(allowed, torch.full((1, 7), 4 * 2.0**-10 + 2.0**-24, dtype=torch.float64))


def erring_at(position: int, shape: tuple[int, ...] = (2, 7)) -> Tensor:
    """Where, in units of one honest error at `position` of the first row, an error is allowed."""
    return torch.zeros(shape).index_put((torch.tensor(0), torch.tensor(position)), torch.tensor(1.0))


@pytest.mark.parametrize(
    ("group", "position", "neighbours"),
    [
        (0, 3, range(7)),
        (1, 3, [3]),
        (3, 3, [3, 4, 5]),
        (3, 6, [6]),
        (7, 0, range(7)),
        (32, 6, range(7)),
    ],
)
def test_an_honest_error_counts_within_its_group_of_its_row(group: int, position: int, neighbours: list[int]) -> None:
    value = torch.zeros(2, 7, dtype=torch.float64)
    allowed = allowed_error(value, [erring_at(position)], None, tolerance(factor=1, group=group))
    expected = torch.zeros(2, 7)
    expected[0, list(neighbours)] = 1
    assert torch.equal(allowed.round(), expected.double())


@pytest.mark.parametrize("group", [0, 1, 32])
def test_a_scalar_has_no_neighbours(group: int) -> None:
    value = torch.tensor(1.0, dtype=torch.float64)
    allowed = allowed_error(value, [torch.tensor(1.5)], None, tolerance(factor=2, group=group))
    assert float(allowed) == 1.0 + 2.0**-24


@pytest.mark.parametrize("shape", [(0,), (0, 7), (7, 0)])
@pytest.mark.parametrize("group", [0, 3])
def test_an_empty_output_has_no_tolerances(shape: tuple[int, ...], group: int) -> None:
    allowed = allowed_error(torch.zeros(shape).double(), [torch.zeros(shape)], None, Tolerance(group=group))
    assert allowed.shape == shape


@pytest.mark.parametrize("dtype", BITS)
def test_sums_are_allowed_float32_roundings_of_their_magnitude(dtype: torch.dtype) -> None:
    value, magnitude = torch.tensor(0.0, dtype=torch.float64), torch.tensor(1000.0, dtype=torch.float64)
    allowed = allowed_error(value, [value.to(dtype)], magnitude, tolerance(accumulation_ulps=17))
    assert float(allowed) == 17 * 2.0**-14 + float(ulp(value, dtype)) / 2


def test_a_magnitude_is_spread_over_the_outputs_it_stands_for() -> None:
    value = torch.zeros(3, 7, dtype=torch.float64)
    allowed = allowed_error(value, [value.float()], torch.ones(3, 1).double(), tolerance(accumulation_ulps=1))
    assert allowed.shape == (3, 7)
    assert bool((allowed >= 2.0**-23).all())


@pytest.mark.parametrize(
    ("oracle", "honest"),
    [(math.nan, math.nan), (math.inf, math.inf), (1.0, math.inf), (1.0, math.nan), (-math.inf, 1.0), (math.nan, 1.0)],
)
def test_an_error_that_is_not_finite_allows_its_neighbours_nothing(oracle: float, honest: float) -> None:
    value = torch.tensor([1.0, oracle, 1.0], dtype=torch.float64)
    allowed = allowed_error(value, [torch.tensor([1.0, honest, 1.0])], None, tolerance(factor=1000))
    assert allowed[[0, 2]].tolist() == [2.0**-24, 2.0**-24]
    assert bool(allowed.isfinite().all())


def test_a_small_row_is_not_judged_by_a_large_one() -> None:
    value = torch.tensor([[1000.0], [0.001]], dtype=torch.float64).expand(2, 500)
    honest = value.float() + torch.tensor([[1.0], [0.0]])
    allowed = allowed_error(value, [honest], None, Tolerance(factor=4, result_ulps=1))
    assert float(allowed[0].min()) > 4
    assert float(allowed[1].max()) < 1e-9


def test_a_sum_may_lack_what_atomic_additions_take_for_zero_and_nothing_else_may() -> None:
    value = torch.tensor([1e-36]).double()
    lost = torch.finfo(torch.float32).tiny
    sums = allowed_error(value, [value.float()], value, tolerance(accumulation_ulps=1))
    assert lost < sums.item() < 4 * lost
    assert allowed_error(value, [value.float()], None, tolerance()).item() < lost
