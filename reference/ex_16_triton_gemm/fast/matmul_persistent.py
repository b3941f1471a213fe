"""Model solution of ex_16: a matrix product in tiles, as fast as cuBLAS where it matters.

Three ways to the same tile of c, chosen by size and memory layout:

- `tile_kernel` reads its operands through pointers: any strides, any size. One program per tile; a long K is split
  over several programs, whose partial tiles `reduce_kernel` adds up.
- `persistent_kernel` reads them through tensor descriptors (the TMA unit copies whole tiles, and programs stay for
  many tiles): the fastest for large products, but only for memory that the TMA unit can address.
- `pack_kernel` copies an operand into such memory where that pays.

The epilogue of matmul_bias_silu is a few lines in both product kernels: the tile is still in registers.
"""

import functools
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


class Tiling(NamedTuple):
    """A tile's sides, the warps that work on it, the K blocks in flight, and how many such programs an SM holds."""

    block_m: int
    block_n: int
    block_k: int
    warps: int
    stages: int
    per_sm: int


# Per kind of product, tiles from large to small; the first one that gives every SM a tile is taken, or else the last.
# A large tile reads less: a product in tiles of m × n loads M·N·K · (1/m + 1/n) elements.
TILES = {
    # Measured on an H200 in float16, share of cuBLAS: 0.94 at 2048, 0.85 at 1024, 1.09 at 512, each with its own tile.
    "half": (Tiling(128, 256, 64, 8, 3, 1), Tiling(64, 128, 128, 4, 3, 1), Tiling(64, 32, 128, 4, 4, 2)),
    # Rows that start anywhere are read 2 bytes at a time, through registers: a larger tile would spill them.
    "half unaligned": (Tiling(128, 64, 32, 4, 3, 2), Tiling(64, 64, 32, 4, 3, 3)),
    # Few rows: a stream of b through the SMs, so what counts is how many bytes are in flight.
    "half skinny": (Tiling(16, 128, 64, 4, 4, 3),),
    # True float32 runs on the ordinary cores instead of the tensor cores, and is bound by them: 0.86 at 2048.
    "float": (Tiling(64, 128, 32, 8, 3, 2), Tiling(64, 64, 32, 4, 3, 3)),
    "float skinny": (Tiling(16, 64, 32, 4, 4, 3),),
    # Compiled once for all shapes and strides (see `any_tile_kernel`), and quick where it is interpreted.
    "small": (Tiling(64, 64, 32, 4, 2, 1),),
}
# The persistent kernel's: 229,408 of the 232,448 bytes of shared memory.
PERSISTENT = Tiling(128, 256, 64, 8, 4, 1)
# Partial tiles in float32 need twice the room for the epilogue, so one stage has to go.
PERSISTENT_SPLIT = Tiling(128, 256, 64, 8, 3, 1)

SKINNY_ROWS = 16
# Multiply-adds below which a product is small.
SMALL_WORK = 1 << 22
# … and from which on the persistent kernel wins: 0.97 of cuBLAS at 2048, where pointers reach 0.94; below, its tiles
# are too few for all SMs.
PERSISTENT_WORK = 1 << 33
# Copying an operand into TMA's layout pays where it is read for that many tiles' worth of rows and columns.
PACKED_SIDE = 1024
# A split of K shorter than this many blocks costs more, in partial tiles, than it gains.
SPLIT_STEPS = 16
# Tile rows that are walked together, so that programs running at the same time share their operands in L2.
GROUP_M = 8
PACK_BLOCK = 2048
REDUCE_BLOCK = 1024
# 16 bytes: what TMA wants of addresses and of row strides.
TMA_BYTES = 16


@triton.jit
def tile_place(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Row and column of a tile: down GROUP_M tile rows, then one tile column to the right, and so on."""
    group_tiles = GROUP_M * tiles_n
    first_m = tile // group_tiles * GROUP_M
    rows = tl.minimum(tiles_m - first_m, GROUP_M)
    return first_m + tile % group_tiles % rows, tile % group_tiles // rows


@triton.jit
def bias_silu(acc, bias_ptr, columns, N):
    """silu(acc + bias) in float32: silu(z) = z / (1 + exp(-z))."""
    z = acc + tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)[None, :]
    return z / (1.0 + tl.exp(-z))


def tile_kernel_body(
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
    stride_cs,
    stride_cm,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    FUSED: tl.constexpr,
):
    """One tile of c, or of one split's share of it: program (tile, split) adds up the K blocks of its split."""
    tile_m, tile_n = tile_place(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    split = tl.program_id(1)
    steps = tl.cdiv(tl.cdiv(K, BLOCK_K), tl.num_programs(1))
    start = split * steps * BLOCK_K
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = start + tl.arange(0, BLOCK_K)
    row_mask = rows[:, None] < M
    column_mask = columns[None, :] < N
    # 64-bit offsets: a row number times a stride outgrows 32 bits in large or widely spread matrices.
    a_ptrs = a_ptr + rows.to(tl.int64)[:, None] * stride_am + ks.to(tl.int64)[None, :] * stride_ak
    b_ptrs = b_ptr + ks.to(tl.int64)[:, None] * stride_bk + columns.to(tl.int64)[None, :] * stride_bn
    a_step = tl.full((), BLOCK_K, tl.int64) * stride_ak
    b_step = tl.full((), BLOCK_K, tl.int64) * stride_bk
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(steps):
        # Zeros beyond the end of K add nothing; both operands need them, for 0 · NaN is not 0.
        left = K - start - step * BLOCK_K
        k_mask = tl.arange(0, BLOCK_K) < left
        # BLOCK_M · BLOCK_K elements of a and BLOCK_K · BLOCK_N of b give BLOCK_M · BLOCK_N · BLOCK_K products.
        a = tl.load(a_ptrs, mask=row_mask & k_mask[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=k_mask[:, None] & column_mask, other=0.0)
        # "ieee" matters for float32 only: without it a GPU rounds the operands to TF32's 10 bits.
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += a_step
        b_ptrs += b_step
    if FUSED:
        acc = bias_silu(acc, bias_ptr, columns, N)
    c_ptrs = c_ptr + split.to(tl.int64) * stride_cs + rows.to(tl.int64)[:, None] * stride_cm + columns[None, :]
    # The one rounding to the dtype of c.
    tl.store(c_ptrs, acc, mask=row_mask & column_mask)


# A compiler specialises on arguments that are 1 or multiples of 16: contiguous and aligned accesses become wide ones.
tile_kernel = triton.jit(tile_kernel_body)
# Small products gain nothing from that, and every other combination of sizes and strides would be compiled again.
any_tile_kernel = triton.jit(
    tile_kernel_body,
    do_not_specialize=[
        *("a_ptr", "b_ptr", "c_ptr", "bias_ptr", "M", "N", "K"),
        *("stride_am", "stride_ak", "stride_bk", "stride_bn", "stride_cs", "stride_cm"),
    ],
)


@triton.jit
def persistent_kernel(
    a_desc,
    b_desc,
    c_desc,
    c_ptr,
    bias_ptr,
    M,
    N,
    K,
    splits,
    stride_cs,
    stride_cm,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    A_COLUMNS: tl.constexpr,
    B_COLUMNS: tl.constexpr,
    TMA_STORE: tl.constexpr,
    FUSED: tl.constexpr,
):
    """As many programs as SMs; each takes every n-th tile. Descriptors give zeros outside their matrix."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    tiles = tiles_m * tiles_n
    steps = tl.cdiv(tl.cdiv(K, BLOCK_K), splits)
    # A counter of its own for the epilogue: with `flatten` the loads of the next tile fly during it.
    done = tl.program_id(0) - tl.num_programs(0)
    for work in tl.range(tl.program_id(0), tiles * splits, tl.num_programs(0), flatten=True):
        tile_m, tile_n = tile_place(work % tiles, tiles_m, tiles_n, GROUP_M)
        start = work // tiles * steps * BLOCK_K
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(steps):
            k = start + step * BLOCK_K
            a = a_desc.load([k, tile_m * BLOCK_M]).T if A_COLUMNS else a_desc.load([tile_m * BLOCK_M, k])
            b = b_desc.load([tile_n * BLOCK_N, k]).T if B_COLUMNS else b_desc.load([k, tile_n * BLOCK_N])
            acc = tl.dot(a, b, acc)
        done += tl.num_programs(0)
        tile_m, tile_n = tile_place(done % tiles, tiles_m, tiles_n, GROUP_M)
        # In two halves: a staging buffer of half a tile leaves the shared memory for a fourth stage.
        halves = tl.permute(tl.reshape(acc, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
        left, right = tl.split(halves)
        rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
        columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N // 2)
        if FUSED:
            left = bias_silu(left, bias_ptr, columns, N)
        if TMA_STORE:
            c_desc.store([tile_m * BLOCK_M, tile_n * BLOCK_N], left.to(c_desc.dtype))
        else:
            place = c_ptr + (done // tiles).to(tl.int64) * stride_cs
            c_ptrs = place + rows.to(tl.int64)[:, None] * stride_cm + columns[None, :]
            tl.store(c_ptrs, left, mask=(rows[:, None] < M) & (columns[None, :] < N))
        columns += BLOCK_N // 2
        if FUSED:
            right = bias_silu(right, bias_ptr, columns, N)
        if TMA_STORE:
            c_desc.store([tile_m * BLOCK_M, tile_n * BLOCK_N + BLOCK_N // 2], right.to(c_desc.dtype))
        else:
            c_ptrs = place + rows.to(tl.int64)[:, None] * stride_cm + columns[None, :]
            tl.store(c_ptrs, right, mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def reduce_kernel(partial_ptr, c_ptr, n_elements, splits, BLOCK: tl.constexpr):
    """c = the sum of the splits' partial tiles, always in the same order; splits + 1 elements moved per element."""
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for split in range(splits):
        # Split by split: each is a whole matrix in float32.
        total += tl.load(partial_ptr + tl.full((), split, tl.int64) * n_elements + offsets, mask=mask, other=0.0)
    tl.store(c_ptr + offsets, total, mask=mask)


@triton.jit
def pack_kernel(x_ptr, packed_ptr, n_columns, stride_xm, stride_xn, stride_pm, BLOCK: tl.constexpr):
    """Copy BLOCK elements of one row; 2 elements moved per element."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < n_columns
    x = tl.load(x_ptr + row * stride_xm + columns.to(tl.int64) * stride_xn, mask=mask)
    tl.store(packed_ptr + row * stride_pm + columns, x, mask=mask)


@functools.cache
def multiprocessors(device: torch.device) -> int:
    """Return the SMs of a GPU. The interpreter runs one program after another, so there it is 1."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def kind_of(a: torch.Tensor, b: torch.Tensor) -> str:
    """Return the row of TILES for a product."""
    small = a.shape[0] * b.numel() < SMALL_WORK
    size = "small" if small else "float" if a.dtype == torch.float32 else "half"
    if a.shape[0] <= SKINNY_ROWS and not small:
        return f"{size} skinny"
    return size if size != "half" or (reads_wide(a) and reads_wide(b)) else "half unaligned"


def tiling_for(a: torch.Tensor, b: torch.Tensor, sms: int) -> Tiling:
    """Return the largest tile that leaves no SM idle."""
    m, n = a.shape[0], b.shape[1]
    tilings = TILES[kind_of(a, b)]
    # 0.9: a tenth of the SMs without a tile costs less than smaller tiles do.
    filling = (one for one in tilings if triton.cdiv(m, one.block_m) * triton.cdiv(n, one.block_n) >= 0.9 * sms)
    return next(filling, tilings[-1])


def splits_for(m: int, n: int, k: int, tiling: Tiling, sms: int) -> int:
    """Return how many programs the K of a tile is split over: enough to fill the SMs, each with enough to do."""
    tiles = triton.cdiv(m, tiling.block_m) * triton.cdiv(n, tiling.block_n)
    steps = triton.cdiv(k, tiling.block_k)
    return max(1, min(tiling.per_sm * sms // tiles, steps // SPLIT_STEPS))


def is_large(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether to use the persistent kernel, with its large tiles on the tensor cores."""
    (m, k), n = a.shape, b.shape[1]
    fills = min(m, n) >= PERSISTENT.block_m // 2
    return a.dtype != torch.float32 and fills and m * n * k >= PERSISTENT_WORK


def tma_major(x: torch.Tensor) -> str:
    """Return how TMA can read a matrix: "rows", "columns" (as the rows of its transpose), or "" if it cannot."""
    if x.data_ptr() % TMA_BYTES:
        return ""
    for name, (outer, inner) in (("rows", x.stride()), ("columns", x.stride()[::-1])):
        length = x.shape[1] if name == "rows" else x.shape[0]
        if inner == 1 and outer >= length and outer * x.element_size() % TMA_BYTES == 0:
            return name
    return ""


def reads_wide(x: torch.Tensor) -> bool:
    """Return whether a compiler may read 16 bytes at a time: it knows multiples of 16 in strides and in masks."""
    outer, length = max(x.stride()), x.shape[1] if x.stride(1) == 1 else x.shape[0]
    return bool(tma_major(x)) and outer % 16 == 0 and length % 16 == 0


def packed(x: torch.Tensor) -> torch.Tensor:
    """Return a copy of a matrix that TMA can read: row by row, each starting at a multiple of 16 bytes."""
    rows, columns = x.shape
    pitch = triton.cdiv(columns * x.element_size(), TMA_BYTES) * TMA_BYTES // x.element_size()
    copy = torch.empty((rows, pitch), dtype=x.dtype, device=x.device)[:, :columns]
    grid = (rows, triton.cdiv(columns, PACK_BLOCK))
    pack_kernel[grid](x, copy, columns, x.stride(0), x.stride(1), pitch, BLOCK=PACK_BLOCK)
    return copy


def descriptor(x: torch.Tensor, block: tuple[int, int], major: str) -> TensorDescriptor:
    """Describe a matrix, or its transpose, to TMA: address, shape, strides, and the block of one copy."""
    if major == "columns":
        x, block = x.t(), block[::-1]
    return TensorDescriptor(x, list(x.shape), list(x.stride()), list(block))


def persistent_product(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, bias: torch.Tensor | None) -> None:
    """c = a·b, or silu(a·b + bias), for operands that TMA can read."""
    (m, k), n = a.shape, b.shape[1]
    sms = multiprocessors(a.device)
    splits = 1 if bias is not None else splits_for(m, n, k, PERSISTENT_SPLIT, sms)
    tiling = PERSISTENT if splits == 1 else PERSISTENT_SPLIT
    out = c if splits == 1 else torch.empty((splits, m, n), dtype=torch.float32, device=c.device)
    tma_store = splits == 1 and tma_major(c) == "rows"
    a_major, b_major = tma_major(a), tma_major(b)
    work = triton.cdiv(m, tiling.block_m) * triton.cdiv(n, tiling.block_n) * splits
    persistent_kernel[(min(sms, work),)](
        descriptor(a, (tiling.block_m, tiling.block_k), a_major),
        descriptor(b, (tiling.block_k, tiling.block_n), b_major),
        descriptor(c, (tiling.block_m, tiling.block_n // 2), "rows") if tma_store else None,
        out,
        bias,
        m,
        n,
        k,
        splits,
        m * n,
        n,
        BLOCK_M=tiling.block_m,
        BLOCK_N=tiling.block_n,
        BLOCK_K=tiling.block_k,
        GROUP_M=GROUP_M,
        A_COLUMNS=a_major == "columns",
        B_COLUMNS=b_major == "columns",
        TMA_STORE=tma_store,
        FUSED=bias is not None,
        num_warps=tiling.warps,
        num_stages=tiling.stages,
    )
    if splits > 1:
        add_up(out, c)


def tile_product(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, bias: torch.Tensor | None) -> None:
    """c = a·b, or silu(a·b + bias), for operands of any strides."""
    (m, k), n = a.shape, b.shape[1]
    sms = multiprocessors(a.device)
    tiling = tiling_for(a, b, sms)
    splits = 1 if bias is not None else splits_for(m, n, k, tiling, sms)
    out = c if splits == 1 else torch.empty((splits, m, n), dtype=torch.float32, device=c.device)
    kernel = any_tile_kernel if m * n * k < SMALL_WORK else tile_kernel
    kernel[(triton.cdiv(m, tiling.block_m) * triton.cdiv(n, tiling.block_n), splits)](
        a,
        b,
        out,
        bias,
        m,
        n,
        k,
        *a.stride(),
        *b.stride(),
        m * n,
        n,
        BLOCK_M=tiling.block_m,
        BLOCK_N=tiling.block_n,
        BLOCK_K=tiling.block_k,
        GROUP_M=GROUP_M,
        FUSED=bias is not None,
        num_warps=tiling.warps,
        num_stages=tiling.stages,
    )
    if splits > 1:
        add_up(out, c)


def add_up(partials: torch.Tensor, c: torch.Tensor) -> None:
    """c = the sum of the partial products [splits, M, N]."""
    grid = (triton.cdiv(c.numel(), REDUCE_BLOCK),)
    reduce_kernel[grid](partials, c, c.numel(), partials.shape[0], BLOCK=REDUCE_BLOCK)


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """c[m, n] = sum_k a[m, k] * b[k, n]."""
    m, n = a.shape[0], b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    if not is_large(a, b):
        tile_product(a, b, c, None)
    elif tma_major(a) and tma_major(b):
        persistent_product(a, b, c, None)
    elif min(m, n) >= PACKED_SIDE:
        persistent_product(*(x if tma_major(x) else packed(x) for x in (a, b)), c, None)
    else:
        tile_product(a, b, c, None)
    return c


def matmul_bias_silu(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """out[m, n] = silu(sum_k a[m, k] * b[k, n] + bias[n]), in one launch."""
    m, n = a.shape[0], b.shape[1]
    out = torch.empty((m, n), dtype=a.dtype, device=a.device)
    product = persistent_product if is_large(a, b) and tma_major(a) and tma_major(b) else tile_product
    product(a, b, out, bias)
    return out
