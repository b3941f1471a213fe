"""Blocks that share elements: a view as NumPy makes it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from grader.interpreter.gather import stretched

SHAPES = arrays.mutually_broadcastable_shapes(num_shapes=1, base_shape=(3, 1, 4), min_dims=1, min_side=0, max_side=5)


@given(SHAPES, st.sampled_from(["int32", "float16", "bool"]), st.booleans())
def test_a_stretched_array_is_what_numpy_makes_of_it(shapes: arrays.BroadcastableShapes, dtype: str, cut: bool) -> None:
    ((*leading, last),), wanted = shapes.input_shapes, shapes.result_shape
    data = np.arange(2 * math.prod(leading) * last).reshape(*leading, 2 * last).astype(dtype)
    data = data[..., ::2] if cut else np.ascontiguousarray(data[..., ::2])
    for shape in (wanted, (2, *wanted), data.shape):
        got, usual = stretched(data, shape), np.broadcast_to(data, shape)
        assert (got.shape, got.dtype) == (usual.shape, usual.dtype)
        assert np.array_equal(got, usual)


def test_a_stretched_array_is_a_view_that_nobody_stores_into() -> None:
    data = np.ones((3, 1))
    made = stretched(data, (3, 4))
    assert np.shares_memory(made, data)
    with pytest.raises(ValueError, match="read-only"):
        made[0, 0] = 2
