"""fail: race: load of dq_ptr: every block of keys adds to all of dq, by a load and a store."""

import torch
import triton
import triton.language as tl


@triton.jit
def dq_kernel(k_ptr, dq_ptr, M, N, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    keys = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    d = tl.arange(0, D)
    k = tl.load(k_ptr + keys[:, None] * D + d[None, :], mask=keys[:, None] < N, other=0.0)
    for first in range(0, M, BLOCK_M):
        rows = first + tl.arange(0, BLOCK_M)
        dq_ptrs = dq_ptr + rows[:, None] * D + d[None, :]
        inside = rows[:, None] < M
        ds = tl.full((BLOCK_M, BLOCK_N), 0.5, tl.float32)
        dq = tl.load(dq_ptrs, mask=inside, other=0.0)  # here
        dq += tl.dot(ds, k, input_precision="ieee")
        tl.store(dq_ptrs, dq, mask=inside)  # there


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside), mask=inside)


def vector_add(x, y):
    dq = torch.zeros((20, 16), dtype=torch.float32, device=x.device)
    dq_kernel[(2,)](x[:480].float(), dq, 20, 30, D=16, BLOCK_M=16, BLOCK_N=16)
    z = torch.empty_like(x)
    add_kernel[(8,)](x, y, z, x.numel(), BLOCK=128)
    return z
