"""matmul_bias_silu.fresh fail: three programs add their parts of K by atomics, so equal inputs may give unequal bits.

Cause: race
"""

import torch
import triton
import triton.language as tl


@triton.jit
def fused_kernel(
    a_ptr,
    b_ptr,
    bias_ptr,
    c_ptr,
    sums_ptr,
    tickets_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    BLOCK: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SPLITS: tl.constexpr,
):
    rows = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)[:, None]
    columns = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)[None, :]
    steps = tl.arange(0, BLOCK_K).to(tl.int64)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(tl.program_id(2) * BLOCK_K, K, SPLITS * BLOCK_K):
        left = k + steps
        a = tl.load(
            a_ptr + rows * stride_am + left[None, :] * stride_ak, mask=(rows < M) & (left[None, :] < K), other=0.0
        )
        b = tl.load(
            b_ptr + left[:, None] * stride_bk + columns * stride_bn, mask=(left[:, None] < K) & (columns < N), other=0.0
        )
        acc = tl.dot(a, b, acc, input_precision="ieee")
    inside = (rows < M) & (columns < N)
    tl.atomic_add(sums_ptr + rows * N + columns, acc, mask=inside)
    tl.debug_barrier()
    ticket = tl.atomic_add(tickets_ptr + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1), 1)
    if ticket == SPLITS - 1:
        z = tl.load(sums_ptr + rows * N + columns, mask=inside, other=0.0, cache_modifier=".cg")
        z += tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
        tl.store(c_ptr + rows * N + columns, z * tl.sigmoid(z), mask=inside)


def matmul_bias_silu(a, b, bias):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    sums = torch.zeros((m, n), dtype=torch.float32, device=a.device)
    grid = (triton.cdiv(m, 64), triton.cdiv(n, 64), 3)
    tickets = torch.zeros(grid[:2], dtype=torch.int32, device=a.device)
    strides = *a.stride(), *b.stride()
    fused_kernel[grid](a, b, bias, c, sums, tickets, m, n, k, *strides, BLOCK=64, BLOCK_K=32, SPLITS=3)
    return c
