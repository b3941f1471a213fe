"""fail: out_of_bounds: load of x_ptr: twice as many programs as there are rows."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    offsets = tl.program_id(0) * N + columns
    x = tl.load(x_ptr + offsets, mask=columns < N)  # here
    y = tl.load(y_ptr + offsets, mask=columns < N)
    tl.store(z_ptr + offsets, x + y, mask=columns < N)


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(50,)](x.view(25, 40), y.view(25, 40), z.view(25, 40), N=40, BLOCK=64)
    return z
