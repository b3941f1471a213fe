"""fail: out_of_bounds: load of x_ptr: rows lie 64 elements apart and have 40; what is between is no element."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, stride, N, BLOCK_N: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * stride + columns)  # here
    y = tl.load(y_ptr + row * N + columns, mask=columns < N)
    tl.store(z_ptr + row * N + columns, x + y, mask=columns < N)


def vector_add(x, y):
    spread = torch.empty((25, 64), dtype=x.dtype, device=x.device)[:, :40]
    spread.copy_(x.view(25, 40))
    z = torch.empty_like(x)
    add_kernel[(25,)](spread, y, z, 64, 40, BLOCK_N=64)
    return z
