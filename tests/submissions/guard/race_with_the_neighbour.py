"""fail: race: load of z_ptr: each program reads what its left neighbour stores in the same launch."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, edge_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    offsets = start + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, total, mask=inside)  # there
    left = tl.load(z_ptr + start - 1, mask=start > 0, other=0.0)  # here
    tl.store(edge_ptr + tl.program_id(0), left)


def vector_add(x, y):
    z, edge = torch.empty_like(x), torch.empty(8, dtype=x.dtype, device=x.device)
    add_kernel[(8,)](x, y, z, edge, x.numel(), BLOCK=128)
    return z
