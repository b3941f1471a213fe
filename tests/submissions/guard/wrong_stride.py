"""fail: out_of_bounds: load of x_ptr: a transposed matrix is walked with the strides of a plain one."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    columns = tl.arange(0, BLOCK_N)[None, :]
    inside = (rows < M) & (columns < N)
    # x and y are transposed: their rows lie 1 element apart, not 40.
    x = tl.load(x_ptr + rows * 40 + columns, mask=inside)  # here
    y = tl.load(y_ptr + rows + columns * 40, mask=inside)
    tl.store(z_ptr + rows + columns * 40, x + y, mask=inside)


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(3,)](x.view(25, 40).t(), y.view(25, 40).t(), z, 40, 25, BLOCK_M=16, BLOCK_N=32)
    return z
