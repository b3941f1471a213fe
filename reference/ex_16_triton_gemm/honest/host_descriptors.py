"""Tensor descriptors made on the host; an operand that none can describe is copied first."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

BLOCK_M, BLOCK_N, BLOCK_K = 64, 64, 32


# One kernel for all shapes: specialised ones would be faster, and each would be compiled.
@triton.jit(do_not_specialize=["M", "N", "K"])
def product_kernel(
    a_desc,
    b_desc,
    c_ptr,
    bias_ptr,
    M,
    N,
    K,
    FUSED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = a_desc.load([tl.program_id(0) * BLOCK_M, k])
        b = b_desc.load([k, tl.program_id(1) * BLOCK_N])
        acc = tl.dot(a, b, acc, input_precision="ieee")
    if FUSED:
        z = acc + tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)[None, :]
        acc = z / (1.0 + tl.exp(-z))
    c_ptrs = c_ptr + rows.to(tl.int64)[:, None] * N + columns[None, :]
    tl.store(c_ptrs, acc, mask=(rows[:, None] < M) & (columns[None, :] < N))


def _readable(x: torch.Tensor) -> torch.Tensor:
    """Return x if a descriptor can describe it: aligned, with rows a multiple of 16 bytes apart; else a copy."""
    rows, columns = x.shape
    aligned = x.data_ptr() % 16 == 0 and x.stride(0) * x.element_size() % 16 == 0
    if aligned and x.stride(1) == 1 and x.stride(0) >= columns:
        return x
    width = 16 // x.element_size()
    copy = torch.empty((rows, triton.cdiv(columns, width) * width), dtype=x.dtype, device=x.device)[:, :columns]
    copy.copy_(x)
    return copy


def _product(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    a_desc = TensorDescriptor.from_tensor(_readable(a), [BLOCK_M, BLOCK_K])
    b_desc = TensorDescriptor.from_tensor(_readable(b), [BLOCK_K, BLOCK_N])
    product_kernel[grid](a_desc, b_desc, c, bias, M, N, K, bias is not None, BLOCK_M, BLOCK_N, BLOCK_K)
    return c


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _product(a, b, None)


def matmul_bias_silu(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return _product(a, b, bias)
