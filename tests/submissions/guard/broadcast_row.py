"""fail: out_of_bounds: load of y_ptr: an expanded row has one row in memory, and is walked as if it had 25."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, N, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    offsets = tl.program_id(0) * N + columns
    x = tl.load(x_ptr + offsets, mask=columns < N)
    y = tl.load(y_ptr + offsets, mask=columns < N)  # here
    tl.store(z_ptr + offsets, x + y, mask=columns < N)


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(25,)](x, y[:40].expand(25, 40), z, 40, BLOCK=64)
    return z
