"""matmul.traffic fail: a program computes a single row of a tile, so all of b is read once per row of a.

Cause: read_again
"""

import torch
import triton
import triton.language as tl

BLOCK_N, BLOCK_K = 128, 128


# One kernel for all shapes: specialised ones would be faster, and each would be compiled.
@triton.jit(do_not_specialize=["N", "K", "stride_am", "stride_ak", "stride_bk", "stride_bn"])
def row_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    columns = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    ks = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + row * stride_am + ks * stride_ak
    b_ptrs = b_ptr + ks[:, None] * stride_bk + columns[None, :] * stride_bn
    acc = tl.zeros((BLOCK_N,), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=ks < K - k, other=0.0).to(tl.float32)
        b = tl.load(b_ptrs, mask=(ks[:, None] < K - k) & (columns[None, :] < N), other=0.0).to(tl.float32)
        acc += tl.sum(a[:, None] * b, axis=0)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    tl.store(c_ptr + row * N + columns, acc, mask=columns < N)


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    grid = (M, triton.cdiv(N, BLOCK_N))
    row_kernel[grid](a, b, c, N, K, *a.stride(), *b.stride(), BLOCK_N, BLOCK_K)
    return c
