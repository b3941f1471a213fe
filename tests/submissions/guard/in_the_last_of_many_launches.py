"""fail: out_of_bounds: store of z_ptr: the third launch of the same kernel is one block too far."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, first, n, BLOCK: tl.constexpr):
    offsets = first + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(z_ptr + offsets, x + y, mask=offsets < n + 24)  # here


def vector_add(x, y):
    z = torch.empty_like(x)
    for first in (0, 512, 900):
        add_kernel[(1,)](x, y, z, first, x.numel(), BLOCK=512)
    return z
