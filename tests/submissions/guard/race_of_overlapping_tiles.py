"""fail: race: store of z_ptr: tiles of 128 that start 100 apart, and store other values where they overlap."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * 100 + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    # The later program's values are the right ones, and in the interpreter they are what stays.
    first = tl.arange(0, BLOCK) < 100
    tl.store(z_ptr + offsets, tl.where(first, x + y, 0.0), mask=inside)  # here and there


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(10,)](x, y, z, x.numel(), BLOCK=128)
    return z
