"""What the tolerances of rows allow: one warp may add up a row, however its threads share it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from grader.exercise.catalogue import resolve
from grader.judge.truth import Truth
from grader.protocol.requests import Recipe

pytestmark = pytest.mark.process

ENTRY, _ = resolve(Path(__file__).resolve().parents[2], "ex_15")
THREADS = 32


@pytest.mark.parametrize("neighbours", [1, 4, 8])
@pytest.mark.parametrize("width", [1024, 4096, 16384])
@pytest.mark.parametrize("values", ["normal", "outlier"])
def test_threads_of_one_warp_may_add_up_a_row(values: str, width: int, neighbours: int) -> None:
    part = ENTRY.exercise.part("row_softmax")
    assert part is not None
    truth = Truth.of(ENTRY)
    # Luck decides where a large element stands in its thread: many rows have every place.
    recipe = Recipe("row_softmax", {"M": 40, "N": width, "dtype": "float32", "values": values, "stride": 0}, 1)
    (x,) = (one for one in truth.inputs(recipe) if isinstance(one, torch.Tensor))
    powers = torch.exp(x - x.amax(dim=1, keepdim=True))
    shares = powers.reshape(40, -1, THREADS, neighbours).transpose(1, 2).reshape(40, THREADS, -1)
    of_threads = torch.from_numpy(np.add.accumulate(shares.numpy(), axis=2, dtype=np.float32)[..., -1].copy())
    p = powers / of_threads.sum(dim=1, keepdim=True)
    (expected,) = truth.expect(part, recipe)
    assert bool(((p.double() - expected.value).abs() <= expected.allowed).all())
