"""fail: race: load of z_ptr: the last tile is moved back to be full, and adds to what was added to already."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    start = tl.minimum(tl.program_id(0) * BLOCK, n - BLOCK)
    offsets = start + tl.arange(0, BLOCK)
    total = tl.load(x_ptr + offsets) + tl.load(z_ptr + offsets)  # here
    tl.store(z_ptr + offsets, total)  # there


def vector_add(x, y):
    z = y.clone()
    add_kernel[(8,)](x, z, x.numel(), BLOCK=128)
    return z
