"""Masked lanes of loads without `other` hold ones, or the value that a replay asks for, in every dtype."""

from __future__ import annotations

import numpy as np
import pytest

from grader.interpreter.language.padding import Padding
from grader.protocol.requests import Filling

LAST_OF_TWO = np.array([True, False])


def loaded(noting: Padding, dtype: str, kind: str = "", mask: np.ndarray = LAST_OF_TWO) -> np.generic:
    """Return what a load without `other` puts into its last lane. It stands for a kernel's line: always the same."""
    return noting.lanes(mask, np.dtype(dtype), kind, None)[-1]


def refilled(filling: Filling, dtype: str, kind: str) -> float:
    """Return the same, with the lanes of that line filled."""
    noting = Padding()
    loaded(noting, dtype, kind)
    noting.begin(noting.undefined, filling)
    return float(loaded(noting, dtype, kind))


@pytest.mark.parametrize(("dtype", "value"), [("int8", -1), ("uint16", 0xFFFF), ("int64", -1)])
def test_undefined_lanes_of_integers_hold_ones(dtype: str, value: int) -> None:
    assert loaded(Padding(), dtype) == value


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_undefined_lanes_of_floats_hold_nan(dtype: str) -> None:
    assert np.isnan(loaded(Padding(), dtype))


@pytest.mark.parametrize(
    ("filling", "dtype", "kind", "value"),
    [
        ("0", "float32", "fp32", 0.0),
        ("-inf", "float16", "fp16", -np.inf),
        ("inf", "uint16", "bf16", 0x7F80),
        ("-inf", "uint16", "bf16", 0xFF80),
        ("inf", "int32", "int32", 2**31 - 1),
        ("-inf", "int64", "int64", -(2**63)),
        ("0", "uint8", "fp8e4nv", 0),
        # This type has no infinity: its lanes stay as they are.
        ("inf", "uint8", "fp8e4nv", 0xFF),
    ],
)
def test_a_filled_line_holds_the_value_that_is_asked_for(filling: Filling, dtype: str, kind: str, value: float) -> None:
    assert refilled(filling, dtype, kind) == value


def test_another_line_is_not_filled() -> None:
    noting = Padding()
    noting.begin((10**6,), "0")
    assert np.isnan(loaded(noting, "float32"))


def test_a_load_whose_lanes_are_all_read_leaves_none_undefined() -> None:
    noting = Padding()
    loaded(noting, "float32", mask=np.array([True, True]))
    assert noting.undefined == ()


def test_a_new_call_forgets_the_lines_of_the_one_before() -> None:
    noting = Padding()
    loaded(noting, "float32")
    assert len(noting.undefined) == 1
    noting.begin((), "0")
    assert noting.undefined == ()
