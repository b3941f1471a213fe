"""Fills, copies and casts of torch between two kernels."""

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside), mask=inside)


@triton.jit
def _accumulate(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(z_ptr + offsets, mask=inside) + tl.load(x_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, total, mask=inside)


def vector_add(x, y):
    grid = (triton.cdiv(x.numel(), 1024),)
    z = torch.zeros(x.numel(), dtype=torch.float32, device=x.device)
    _accumulate[grid](x, z, x.numel(), BLOCK=1024)
    kept = z.clone()
    z.fill_(float("nan"))
    z.copy_(kept)
    _accumulate[grid](y, z, x.numel(), BLOCK=1024)
    return z.to(x.dtype, copy=True)
