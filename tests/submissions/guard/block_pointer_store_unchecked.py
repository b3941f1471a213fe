"""fail: out_of_bounds: store of z_ptr: boundary_check for the columns, but the rows end as well.

Needs triton < 3.9: block pointers.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M
    columns = tl.program_id(1) * BLOCK_N
    x_block = tl.make_block_ptr(x_ptr, (M, N), (N, 1), (rows, columns), (BLOCK_M, BLOCK_N), (1, 0))
    y_block = tl.make_block_ptr(y_ptr, (M, N), (N, 1), (rows, columns), (BLOCK_M, BLOCK_N), (1, 0))
    z_block = tl.make_block_ptr(z_ptr, (M, N), (N, 1), (rows, columns), (BLOCK_M, BLOCK_N), (1, 0))
    total = tl.load(x_block, boundary_check=(0, 1)) + tl.load(y_block, boundary_check=(0, 1))
    tl.store(z_block, total, boundary_check=(1,))  # here


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(4, 3)](x.view(25, 40), y.view(25, 40), z.view(25, 40), 25, 40, BLOCK_M=8, BLOCK_N=16)
    return z
