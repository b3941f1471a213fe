"""fail: out_of_bounds: store of z_ptr: the mask compares with the number of blocks' lanes, not with the elements."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, padded, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(z_ptr + offsets, x + y, mask=offsets < padded)  # here


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(8,)](x, y, z, x.numel(), 1020, BLOCK=128)
    return z
