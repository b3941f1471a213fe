"""fail: out_of_bounds: atomic of z_ptr: an atomic addition needs a mask as well."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    y = tl.load(y_ptr + offsets, mask=offsets < n, other=0.0)
    tl.atomic_add(z_ptr + offsets, x + y)  # here


def vector_add(x, y):
    z = torch.zeros_like(x)
    add_kernel[(8,)](x, y, z, x.numel(), BLOCK=128)
    return z
