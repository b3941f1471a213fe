"""fail: race: load of c_ptr: the programs along the second axis of the grid add to one tile."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, c_ptr, n, BLOCK: tl.constexpr):
    row, split = tl.program_id(0), tl.program_id(1)
    offsets = row * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, x + y, mask=inside)
    c = tl.load(c_ptr + offsets, mask=inside)  # here
    tl.store(c_ptr + offsets, c + split, mask=inside)  # there


def vector_add(x, y):
    z, c = torch.empty_like(x), torch.zeros_like(x)
    add_kernel[(8, 3)](x, y, z, c, x.numel(), BLOCK=128)
    return z
