"""fail: out_of_bounds: load of bias_ptr: there is nothing in it."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, bias_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    bias = tl.load(bias_ptr)  # here
    tl.store(z_ptr + offsets, x + y + 0 * tl.where(bias > 0, 1.0, 0.0), mask=offsets < n)


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(8,)](x, y, z, x[:0], x.numel(), BLOCK=128)
    return z
