"""matmul.ragged fail: the largest of an autotuner's four tilings leaves out the last, partial block of K.

Cause: remainder_skipped
"""

import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": side, "BLOCK_N": 64, "BLOCK_K": depth}, num_warps=4, num_stages=3)
    for side in (32, 64)
    for depth in (32, 64)
]


# The key is a class of sizes and not the sizes themselves: a GPU tries all configurations for every new key.
@triton.autotune(configs=CONFIGS, key=["LARGE"])
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
    LARGE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    ks = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * stride_am + ks[None, :] * stride_ak
    b_ptrs = b_ptr + ks[:, None] * stride_bk + columns[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    end = K // BLOCK_K * BLOCK_K if BLOCK_M * BLOCK_K == 4096 else K
    for k in range(0, end, BLOCK_K):
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (ks[None, :] < K - k), other=0.0)
        b = tl.load(b_ptrs, mask=(ks[:, None] < K - k) & (columns[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    if FUSED:
        z = acc + tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)[None, :]
        acc = z / (1.0 + tl.exp(-z))
    c_ptrs = c_ptr + rows[:, None] * N + columns[None, :]
    tl.store(c_ptrs, acc, mask=(rows[:, None] < M) & (columns[None, :] < N))


def _product(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    fused, large = bias is not None, M * N >= 1 << 20

    def grid(config: dict[str, int]) -> tuple[int, int]:
        return triton.cdiv(M, config["BLOCK_M"]), triton.cdiv(N, config["BLOCK_N"])

    product_kernel[grid](a, b, c, bias, M, N, K, *a.stride(), *b.stride(), fused, large)
    return c


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _product(a, b, None)
