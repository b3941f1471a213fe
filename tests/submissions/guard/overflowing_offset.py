"""fail: out_of_bounds: load of x_ptr: row * stride is computed in 32 bits, and wraps around."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, stride, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    # x is one row of 1000 elements, shown as three rows that lie 2**30 elements apart: 2 * 2**30 is no int32.
    rows = tl.where(offsets == 999, 2, 0)
    x = tl.load(x_ptr + rows * stride + offsets, mask=inside)  # here
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, x + y, mask=inside)


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(8,)](x, y, z, x.numel(), 1 << 30, BLOCK=128)
    return z
