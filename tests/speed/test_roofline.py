"""What a size asks of a GPU: the roof above it, which of two roofs is nearer, and the floor that no time goes below."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.protocol.baseline_messages import Gauged
from grader.speed.roofline import RooflineWork

GAUGED = Gauged(l2_bytes=50_000_000, memory_bytes=1 << 37, copy_tbps=4.0, read_tbps=5.0, tflops={"float16": 800.0})


def work(nbytes: float, flops: float = 0.0, dtype: str = "float16") -> RooflineWork:
    return RooflineWork(nbytes, flops, GAUGED, dtype)


def test_bytes_take_as_long_as_a_copy_of_them() -> None:
    assert work(4e9).memory_us == pytest.approx(1000)


def test_operations_take_as_long_as_in_the_fastest_product_of_that_dtype() -> None:
    assert work(0, 8e11).compute_us == pytest.approx(1000)


def test_a_dtype_that_was_not_measured_is_no_faster_than_the_fastest_one_that_was() -> None:
    assert work(0, 8e11, "float8_e4m3fn").compute_us == pytest.approx(1000)
    assert RooflineWork(0, 8e11, Gauged(1, 1, 1.0, 1.0, {}), "float16").compute_us == 0


@pytest.mark.parametrize(
    ("nbytes", "flops", "bound"), [(4e9, 7e11, "memory"), (4e9, 9e11, "compute"), (0, 0, "memory")]
)
def test_what_takes_longer_is_the_bound(nbytes: float, flops: float, bound: str) -> None:
    assert work(nbytes, flops).bound == bound


def test_what_fits_into_the_cache_has_no_floor_but_its_arithmetic() -> None:
    assert work(49e6).floor_us == 0
    assert work(49e6, 8e11).floor_us == pytest.approx(1000 / 1.15)


def test_the_floor_leaves_room_for_the_cache_and_for_the_ceilings_own_error() -> None:
    assert work(5.05e9).floor_us == pytest.approx(1000 / 1.15)


@given(st.floats(0, 1e12), st.floats(0, 1e15))
def test_the_roof_is_never_below_the_floor(nbytes: float, flops: float) -> None:
    one = work(nbytes, flops)
    assert one.floor_us <= max(one.memory_us, one.compute_us)
