"""Model solution of ex_16: one kernel computes one tile of the result per program; both parts launch it.

Reasons for what it does:

- Tiles. A product in tiles of m × n loads M·N·K · (1/m + 1/n) elements: the larger the tile, the less traffic. But a
  product in few tiles leaves multiprocessors idle. So a table lists tilings from large to small, and the first one
  with enough tiles is taken. The table stands on top: a tiling changes the speed, never the result.
- Order. Programs that run at the same time should find each other's operands in L2. Numbered row by row, 132 tiles of
  a large matrix read one block of rows of a, and all of b. In groups of GROUP_M tile rows, walked column by column,
  they read a nearly square piece of c's tiles: few rows and few columns.
- Masks. Loads beyond the matrices give 0, which adds nothing. Along K both operands need that, because
  0 · NaN is NaN. Rows beyond M and columns beyond N are computed as well, but not stored.
- Copies. A thread reads 16 bytes at a time only from rows that start at multiples of 16 bytes, with bounds that are
  multiples too. A large product reads each operand so often that it pays to copy other operands once, with lines along
  K for both: zeros up to the next multiple of 16 change no sum, and M and N stay as they are.
- Precision. The accumulator stays in float32 for the whole loop, and is rounded once, by the store. "ieee" keeps
  float32 operands from being rounded to TF32.
- Strides. Two for each matrix are enough for transposes, windows and gaps. Offsets have 64 bits, because a row number
  times a stride outgrows 32 bits in large matrices.
- Epilogue. After the loop, the tile is still in registers, in float32: bias and silu cost a few instructions for each
  element, where kernels of their own would read and write the whole matrix again. `FUSED` is known at compile time, so
  the plain product pays nothing for it.
- No `@triton.autotune`: it would time every tiling again for every size, and the table already holds the winners.

fast/matmul_persistent.py is the same product at record speed, and twice as long: it also copies tiles by TMA, keeps its
programs for many tiles, and splits a long K over programs.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl


class Tiling(NamedTuple):
    """Sides of the blocks, warps that share one tile, and K blocks in flight."""

    block_m: int
    block_n: int
    block_k: int
    warps: int
    stages: int


# From large to small, chosen among 6 to 10 for each kind on an H100. A pipeline keeps its K blocks in shared memory:
# 144 KiB for the largest tile, where the tensor cores read them there. Before Hopper, and on a GeForce, operands pass
# through registers. Then it keeps one block less: 96 KiB, which every GPU since the A100 has, a GeForce too.
TILINGS = {
    # The large tile reaches 0.92 to 0.97 of cuBLAS's speed; with half of its BLOCK_K, 0.74 to 0.85.
    "half": (Tiling(128, 256, 64, 8, 3), Tiling(64, 128, 64, 4, 4), Tiling(64, 32, 128, 4, 4)),
    # Rows that start anywhere are read 2 bytes at a time, through registers: larger tiles leave too few of them.
    "half, unaligned": (Tiling(64, 128, 32, 4, 3), Tiling(64, 64, 32, 4, 3)),
    # A thin product streams b once, so it is bound by memory: taller tiles would multiply zeros.
    "half, thin": (Tiling(16, 256, 64, 8, 3), Tiling(16, 128, 64, 4, 4), Tiling(16, 32, 128, 2, 6)),
    # True float32 uses the ordinary cores, not the tensor cores, and needs its registers for their operands.
    "float": (Tiling(64, 128, 32, 8, 3), Tiling(64, 64, 32, 4, 3)),
}
# Nearly one for each of an H200's 132 multiprocessors; other large GPUs have 80 to 190.
ENOUGH_TILES = 120
THIN_ROWS = 16
# M and N from which on copies pay.
COPIED_SIDE = 1024
GROUP_M = 8


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
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    FUSED: tl.constexpr,
):
    """Compute one tile of c = a·b, or of silu(a·b + bias) if FUSED; c lies row after row."""
    # Which tile is mine? Down GROUP_M tile rows, then one tile column to the right, and so on.
    tile = tl.program_id(0)
    group_tiles = GROUP_M * tl.cdiv(N, BLOCK_N)
    first_m = tile // group_tiles * GROUP_M
    # The last group may have fewer rows.
    group_rows = tl.minimum(tl.cdiv(M, BLOCK_M) - first_m, GROUP_M)
    tile_m = first_m + tile % group_tiles % group_rows
    tile_n = tile % group_tiles // group_rows

    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    row_mask = rows[:, None] < M
    column_mask = columns[None, :] < N
    a_ptrs = a_ptr + rows.to(tl.int64)[:, None] * stride_am + ks.to(tl.int64)[None, :] * stride_ak
    b_ptrs = b_ptr + ks.to(tl.int64)[:, None] * stride_bk + columns.to(tl.int64)[None, :] * stride_bn
    a_step = tl.full((), BLOCK_K, tl.int64) * stride_ak
    b_step = tl.full((), BLOCK_K, tl.int64) * stride_bk

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        k_mask = ks < K - step * BLOCK_K
        # (BLOCK_M + BLOCK_N) · BLOCK_K elements give BLOCK_M · BLOCK_N · BLOCK_K products.
        a = tl.load(a_ptrs, mask=row_mask & k_mask[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=k_mask[:, None] & column_mask, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += a_step
        b_ptrs += b_step

    if FUSED:
        z = acc + tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)[None, :]
        # silu(z) = z · sigmoid(z). Where exp(-z) overflows, z / inf is the right answer, 0.
        acc = z / (1.0 + tl.exp(-z))
    tl.store(c_ptr + rows.to(tl.int64)[:, None] * N + columns[None, :], acc, mask=row_mask & column_mask)


def reads_wide(x: torch.Tensor) -> bool:
    """Return whether a thread can read 16 bytes at a time: the compiler knows multiples of 16, in addresses and masks.

    What has to be a multiple is the length of a contiguous line, the distance of two, and where the first one starts.
    """
    length, distance = (x.shape[1], x.stride(0)) if x.stride(1) == 1 else (x.shape[0], x.stride(1))
    return 1 in x.stride() and length % 16 == 0 and distance % 16 == 0 and x.data_ptr() % 16 == 0


def tiling_for(a: torch.Tensor, b: torch.Tensor) -> Tiling:
    """Return the largest tile that leaves few multiprocessors idle, or else the smallest."""
    m, n = a.shape[0], b.shape[1]
    if a.dtype == torch.float32:
        tilings = TILINGS["float"]
    elif m <= THIN_ROWS:
        tilings = TILINGS["half, thin"]
    else:
        tilings = TILINGS["half" if reads_wide(a) and reads_wide(b) else "half, unaligned"]
    enough = (one for one in tilings if triton.cdiv(m, one.block_m) * triton.cdiv(n, one.block_n) >= ENOUGH_TILES)
    return next(enough, tilings[-1])


def product(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Return a·b, or silu(a·b + bias) if there is a bias, from one launch."""
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    tiling = tiling_for(a, b)
    product_kernel[(triton.cdiv(m, tiling.block_m) * triton.cdiv(n, tiling.block_n),)](
        a,
        b,
        c,
        bias,
        m,
        n,
        k,
        *a.stride(),
        *b.stride(),
        BLOCK_M=tiling.block_m,
        BLOCK_N=tiling.block_n,
        BLOCK_K=tiling.block_k,
        GROUP_M=GROUP_M,
        FUSED=bias is not None,
        num_warps=tiling.warps,
        num_stages=tiling.stages,
    )
    return c


def copied(x: torch.Tensor) -> torch.Tensor:
    """Return the rows of x one after another, each with zeros up to the next multiple of 16."""
    rows, columns = x.shape
    copy = torch.zeros((rows, triton.cdiv(columns, 16) * 16), dtype=x.dtype, device=x.device)
    copy[:, :columns] = x
    return copy


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """c[m, n] = sum_k a[m, k] * b[k, n]."""
    large = a.dtype != torch.float32 and min(a.shape[0], b.shape[1]) >= COPIED_SIDE
    if large and not (reads_wide(a) and reads_wide(b)):
        a, b = copied(a), copied(b.t()).t()
    return product(a, b, None)


def matmul_bias_silu(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """out[m, n] = silu(sum_k a[m, k] * b[k, n] + bias[n])."""
    return product(a, b, bias)
