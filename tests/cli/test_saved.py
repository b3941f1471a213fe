"""What a call returned is the caller's: later calls may not hand the same memory out again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from grader.record.record import Record

RING = """
import torch
import triton
import triton.language as tl

ring, turn = {{}}, [0]


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, total, mask=inside)


def vector_add(x, y):
    buffers = ring.setdefault((x.shape, x.dtype), [torch.empty_like(x) for _ in range({buffers})])
    turn[0] += 1
    z = buffers[turn[0] % {buffers}]
    add_kernel[(triton.cdiv(x.numel(), 256),)](x, y, z, x.numel(), BLOCK=256)
    return z
"""


@pytest.mark.parametrize("buffers", [1, 4, 16])
def test_a_ring_of_buffers_is_seen_when_its_turn_comes_again(
    tmp_path: Path, briefly: Callable[..., Record], buffers: int
) -> None:
    path = tmp_path / "ex_15.py"
    path.write_text(RING.format(buffers=buffers))
    (check,) = [one for one in briefly(path, "vector_add.fresh").checks if one.id == "vector_add.fresh"]
    assert check.cause is not None
    assert (check.status, check.cause.kind) == ("fail", "alias")
