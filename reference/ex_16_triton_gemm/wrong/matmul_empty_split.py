"""matmul.thin fail: programs whose share of K is empty return before they store their part, and it is added up.

Cause: not_cleared
"""

import torch
import triton
import triton.language as tl

BLOCK_M, BLOCK_N, BLOCK_K, SPLITS = 64, 64, 64, 8
# The fewest elements of K that are split.
LONG = 1536


@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    share,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    first = tl.program_id(2) * share
    end = tl.minimum(first + share, K)
    if first >= K:
        return
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(first, end, BLOCK_K):
        ks = (k + tl.arange(0, BLOCK_K)).to(tl.int64)
        a_ptrs = a_ptr + rows[:, None] * stride_am + ks[None, :] * stride_ak
        b_ptrs = b_ptr + ks[:, None] * stride_bk + columns[None, :] * stride_bn
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (ks[None, :] < end), other=0.0)
        b = tl.load(b_ptrs, mask=(ks[:, None] < end) & (columns[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    c_ptrs = c_ptr + tl.program_id(2).to(tl.int64) * M * N + rows[:, None] * N + columns[None, :]
    tl.store(c_ptrs, acc, mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def add_up_kernel(parts_ptr, c_ptr, n_elements, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for split in range(SPLITS):
        total += tl.load(parts_ptr + split * n_elements + offsets, mask=mask, other=0.0)
    tl.store(c_ptr + offsets, total, mask=mask)


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    (M, K), N = a.shape, b.shape[1]
    splits = SPLITS if K >= LONG and min(M, N) >= BLOCK_M else 1
    share = triton.cdiv(triton.cdiv(K, BLOCK_K), splits) * BLOCK_K
    parts = torch.empty((splits, M, N), dtype=torch.float32, device=a.device)
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N), splits)
    matmul_kernel[grid](a, b, parts, M, N, K, *a.stride(), *b.stride(), share, BLOCK_M, BLOCK_N, BLOCK_K)
    add_up_kernel[(triton.cdiv(M * N, 1024),)](parts, c, M * N, SPLITS=splits, BLOCK=1024)
    return c
