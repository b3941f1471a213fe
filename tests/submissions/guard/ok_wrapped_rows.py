"""pass: rows beyond the last wrap around to the first, so that loads need no mask; stores have one."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, M, N: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.arange(0, BLOCK_N)
    offsets = (rows % M)[:, None] * N + (columns % N)[None, :]
    total = tl.load(x_ptr + offsets) + tl.load(y_ptr + offsets)
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(z_ptr + rows[:, None] * N + columns[None, :], total, mask=inside)


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(4,)](x, y, z, 25, N=40, BLOCK_M=8, BLOCK_N=64)
    return z
