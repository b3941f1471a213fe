"""pass: changes its output in place, and every program is alone with its elements."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for half in range(2):
        z = tl.load(z_ptr + offsets, mask=offsets < n)
        x = tl.load(x_ptr + offsets, mask=offsets < n)
        tl.store(z_ptr + offsets, z + x * half, mask=offsets < n)


def vector_add(x, y):
    z = y.clone()
    add_kernel[(8,)](x, z, x.numel(), BLOCK=128)
    return z
