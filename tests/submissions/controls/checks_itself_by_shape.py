"""Compares shapes, dtypes and devices before and after, and nothing else."""

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(
        z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside), mask=inside
    )


def added(x, y):
    z = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z


def vector_add(x, y):
    if x.shape != y.shape or x.dtype is not y.dtype or x.device != y.device:
        raise ValueError(f"x and y must be alike, got {x.shape}, {y.shape}")
    z = added(x, y)
    assert z.shape == x.shape and z.is_contiguous() and z.data_ptr() != x.data_ptr()
    return z
