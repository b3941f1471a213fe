"""Rows and columns beyond the end wrap around instead of being masked in the loads; the store's mask drops them.

silu is half of z · (1 + tanh(z / 2)). Offsets have 32 bits, as in most kernels that people write.
"""

import torch
import triton
import triton.language as tl

BLOCK_M, BLOCK_N, BLOCK_K = 64, 64, 32


# One kernel for all shapes: specialised ones would be faster, and each would be compiled.
@triton.jit(do_not_specialize=["M", "N", "K", "stride_am", "stride_ak", "stride_bk", "stride_bn"])
def product_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    bias_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    FUSED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    a_rows = rows % M
    b_columns = columns % N
    ks = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + a_rows[:, None] * stride_am + ks[None, :] * stride_ak
    b_ptrs = b_ptr + ks[:, None] * stride_bk + b_columns[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=ks[None, :] < K - k, other=0.0)
        b = tl.load(b_ptrs, mask=ks[:, None] < K - k, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    if FUSED:
        z = acc + tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)[None, :]
        tanh = 2.0 / (1.0 + tl.exp(-z)) - 1.0
        acc = 0.5 * z * (1.0 + tanh)
    c_ptrs = c_ptr + rows[:, None] * N + columns[None, :]
    tl.store(c_ptrs, acc, mask=(rows[:, None] < M) & (columns[None, :] < N))


def _product(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    fused = bias is not None
    product_kernel[grid](a, b, c, bias, M, N, K, *a.stride(), *b.stride(), fused, BLOCK_M, BLOCK_N, BLOCK_K)
    return c


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _product(a, b, None)


def matmul_bias_silu(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return _product(a, b, bias)
