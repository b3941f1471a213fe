"""Walks tiles in groups of rows that share L2, and tunes the fifteen usual tilings for every size."""

import torch
import triton
import triton.language as tl

# BLOCK_M, BLOCK_N, BLOCK_K, stages, warps. Blocks of 128 along K are for operands of one byte; with float32 most of
# them want more shared memory than there is, and the autotuner passes over them.
TILINGS = [
    (128, 256, 64, 3, 8),
    (64, 256, 32, 4, 4),
    (128, 128, 32, 4, 4),
    (128, 64, 32, 4, 4),
    (64, 128, 32, 4, 4),
    (128, 32, 32, 4, 4),
    (64, 32, 32, 5, 2),
    (32, 64, 32, 5, 2),
    (128, 256, 128, 3, 8),
    (256, 128, 128, 3, 8),
    (256, 64, 128, 4, 4),
    (64, 256, 128, 4, 4),
    (128, 128, 128, 4, 4),
    (128, 64, 64, 4, 4),
    (64, 128, 64, 4, 4),
]


def configurations() -> list[triton.Config]:
    return [
        triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8}, num_stages=stages, num_warps=warps)
        for m, n, k, stages, warps in TILINGS
    ]


@triton.jit
def silu(z):
    return z / (1.0 + tl.exp(-z))


@triton.autotune(configs=configurations(), key=["M", "N", "K"])
@triton.jit
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
    stride_cm,
    stride_cn,
    ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    # A group of GROUP_M tile rows is walked column by column, so that programs of one time share rows and columns.
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * tiles_n
    first = tl.program_id(0) // in_group * GROUP_M
    height = tl.minimum(tiles_m - first, GROUP_M)
    tile_m = first + tl.program_id(0) % in_group % height
    tile_n = tl.program_id(0) % in_group // height
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    # Beyond the last row and column the first ones are read again: loads need a mask along K only.
    a_rows = (rows % M).to(tl.int64)
    b_columns = (columns % N).to(tl.int64)
    ks = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + a_rows[:, None] * stride_am + ks[None, :] * stride_ak
    b_ptrs = b_ptr + ks[:, None] * stride_bk + b_columns[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        left = K - step * BLOCK_K
        a = tl.load(a_ptrs, mask=ks[None, :] < left, other=0.0)
        b = tl.load(b_ptrs, mask=ks[:, None] < left, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    if ACTIVATION == "silu":
        acc = silu(acc + tl.load(bias_ptr + b_columns).to(tl.float32)[None, :])
    c_ptrs = c_ptr + rows.to(tl.int64)[:, None] * stride_cm + columns[None, :] * stride_cn
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=(rows[:, None] < M) & (columns[None, :] < N))


def _product(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None, activation: str) -> torch.Tensor:
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)

    def grid(meta: dict[str, int]) -> tuple[int]:
        return (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)

    product_kernel[grid](a, b, c, bias, M, N, K, *a.stride(), *b.stride(), *c.stride(), ACTIVATION=activation)
    return c


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _product(a, b, None, "")


def matmul_bias_silu(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return _product(a, b, bias, "silu")
