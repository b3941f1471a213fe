"""pass: one tensor is given twice, and is read through one argument and changed through the other."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + y, mask=inside)


def vector_add(x, y):
    z = y.clone()
    add_kernel[(8,)](x, z, z, x.numel(), BLOCK=128)
    return z
