"""passes: one launch for each quarter of the vector."""

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, total, mask=inside)


def added(x, y):
    z = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 4096),)](x, y, z, x.numel(), BLOCK=4096)
    return z


@triton.jit
def _add_from(x_ptr, y_ptr, z_ptr, start, end, BLOCK: tl.constexpr):
    offsets = start + tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < end
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, total, mask=inside)


def vector_add(x, y):
    n, z = x.numel(), torch.empty_like(x)
    quarter = triton.cdiv(triton.cdiv(n, 4), 4096) * 4096
    for start in range(0, n, quarter):
        end = min(start + quarter, n)
        _add_from[(triton.cdiv(end - start, 4096),)](x, y, z, start, end, BLOCK=4096)
    return z
