"""pass: block pointers with boundary_check, advanced along the rows, padded with zeros.

Needs triton < 3.9: block pointers.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    row = tl.program_id(0) * BLOCK_M
    x_block = tl.make_block_ptr(x_ptr, (M, N), (N, 1), (row, 0), (BLOCK_M, BLOCK_N), (1, 0))
    y_block = tl.make_block_ptr(y_ptr, (M, N), (N, 1), (row, 0), (BLOCK_M, BLOCK_N), (1, 0))
    z_block = tl.make_block_ptr(z_ptr, (M, N), (N, 1), (row, 0), (BLOCK_M, BLOCK_N), (1, 0))
    for _ in range(0, N, BLOCK_N):
        x = tl.load(x_block, boundary_check=(0, 1), padding_option="zero")
        y = tl.load(y_block, boundary_check=(0, 1), padding_option="nan")
        tl.store(z_block, x + y, boundary_check=(0, 1))
        x_block = tl.advance(x_block, (0, BLOCK_N))
        y_block = tl.advance(y_block, (0, BLOCK_N))
        z_block = tl.advance(z_block, (0, BLOCK_N))


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(4,)](x.view(25, 40), y.view(25, 40), z.view(25, 40), 25, 40, BLOCK_M=8, BLOCK_N=16)
    return z
