"""The matrix product at record speed in Triton on Hopper: programs that stay, and tiles that the copy engine moves.

Four ways to the same tile of c, chosen by size and memory layout:

persistent_kernel   reads its operands through tensor descriptors: the copy engine (TMA) moves whole tiles. As many
                    programs as multiprocessors, each for many tiles. For large products in float16 and bfloat16.
box_kernel          reads them by TMA as well, with one program for each tile. For products whose tiles are all computed
                    at the same time, so that no program has a second one.
tile_kernel         reads them through pointers, as the model solution does: any strides, any size, one program for each
                    tile. For all others. A long K is split over programs, and `reduce_kernel` adds up their sums.
pack_kernel         copies an operand into memory that TMA can address, where that pays.

Reasons, with what each gave on an H100 (Triton 3.6.0):

- Programs stay. One launch of 132 programs walks over all tiles, in groups of GROUP_M tile rows. With `flatten` the two
  loops, over tiles and over K, become one: the loads of the next tile fly during the epilogue of this one. A program
  for each tile would start with an empty pipeline every time.
- TMA. One instruction copies a tile, and the unit computes all addresses, checks all bounds, and fills with zeros. The
  registers and instructions that pointers and masks would need are free. Programs that stay and TMA together: 9 % at
  2048³, 14 % at 4096³, 19 % at 8192³, against `tile_kernel` with the same tile.
- TMA for small products too. Descriptors are built on the host while the GPU is still busy with earlier work, and a
  call takes the host as long as one of `tile_kernel` does. On an H200, `box_kernel` takes 14 % less time than
  `tile_kernel` with the same tile at 1024³. With TMA, tiles of 64 rows and 128 columns have four blocks of K in flight
  instead of three: 6 %.
- Small products have a program for each tile. The loop over tiles costs more than it gives where it has one turn only:
  10 % at 1024³, 2 % at 2048³.
- A tile of 128 × 256. Its accumulator takes 128 registers of each thread of 8 warps. Larger ones spill, smaller ones
  read more: m × n tiles load M·N·K · (1/m + 1/n) elements.
- The epilogue in two halves. A store by TMA goes through shared memory. Half a tile leaves room for a fourth stage of
  the pipeline: 229,408 of the 232,448 bytes that a program may have. 1 % at 4096³, nothing elsewhere.
- Groups of tile rows: 1 % at 2048³, 2 % at 4096³, 5 % at 8192³, where L2 holds the smallest share of the operands.
  Groups of 4 or 16 rows are as good as 8.
- Smaller tiles for smaller products. 1024³ has only 32 tiles of 128 × 256 for 132 multiprocessors. `box_kernel` takes
  the smallest tile of which all fit on the GPU at once, `tile_kernel` the largest one that fills it. 2048³ has 256
  tiles of 128 × 128: two programs share a multiprocessor, and one loads while the other multiplies.
- A split K. Where even the smallest tiles are too few, several programs share a tile: each adds up a part of K, in
  float32. The partial sums always meet in the same order, so equal inputs give equal bits. 16 × 4096 × 4096 gains 32 %,
  and 256 × 256 × 16384 takes less than half as long as in the model solution.
- Packing. TMA wants rows that start at multiples of 16 bytes. Other rows would be read 2 bytes at a time, through
  registers. To copy an operand once costs 2 · M · K elements of traffic, while a product reads it N / 256 times.
  4095 × 4097 × 4093 is three times as fast with it.

Graded on an H100: 57 of 57 points, 1.09 times the speed of cuBLAS in the geometric mean over the judged sizes; the
smallest ratio is 0.96 (2048³), the largest 2.32 (4095 × 4097 × 4093, where cuBLAS is slow too). That was without
`box_kernel`. With it, on an H200: 1024³ has 1.01 times the speed of cuBLAS instead of 0.87, 2048³ 0.995 instead of
0.98, 1792³ 1.03 instead of 0.73, 1024 × 1024 × 4096 0.93 instead of 0.69.

Tried on the H200, and left out: tiles of 128 × 64 instead of 64 × 128 (4 % slower at 1024³), of 64 × 64 (5 %), 3 blocks
of K in flight (8 %); tiles of 128 × 256 with a program each (1 % slower at 2048³); twelve other tiles for float32 at
3072³ (4 % to 22 % slower: 0.965 times cuBLAS).

True float32 has no tensor cores: there, pointers and small tiles are as good as anything. On a GPU without TMA, and in
the interpreter, take the model solution.
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


# Of box_kernel, from small to large: the first one of which the GPU holds all tiles at once is taken.
BOXES = (
    Tiling(64, 64, 128, 4, 4, 1),
    Tiling(64, 128, 128, 4, 4, 1),
    Tiling(128, 128, 64, 8, 5, 1),
    Tiling(128, 128, 64, 4, 3, 2),
)
# Per kind of product, tiles of tile_kernel from large to small: the first one that gives every SM a tile is taken, or
# else the last.
TILES = {
    "half": (Tiling(128, 256, 64, 8, 3, 1), Tiling(64, 128, 128, 4, 3, 1), Tiling(64, 32, 128, 4, 4, 2)),
    # Rows that start anywhere are read 2 bytes at a time, through registers: a larger tile would spill them.
    "half unaligned": (Tiling(128, 64, 32, 4, 3, 2), Tiling(64, 64, 32, 4, 3, 3)),
    # Few rows: a stream of b through the SMs, so what counts is how many bytes are in flight.
    "half skinny": (Tiling(16, 128, 64, 4, 4, 3),),
    "float": (Tiling(64, 128, 32, 8, 3, 2), Tiling(64, 64, 32, 4, 3, 3)),
    "float skinny": (Tiling(16, 64, 32, 4, 4, 3),),
}
PERSISTENT = Tiling(128, 256, 64, 8, 4, 1)
# Partial tiles in float32 need twice the room for the epilogue, so one stage has to go.
PERSISTENT_SPLIT = Tiling(128, 256, 64, 8, 3, 1)

SKINNY_ROWS = 16
# Multiply-adds from which on the persistent kernel wins; below, its tiles are too few for all SMs.
# Up to as many, box_kernel wins where it can.
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
# An H200's. The interpreter plans for them too, so that it takes the tiles of a GPU.
SMS = 132


@triton.jit
def tile_place(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Row and column of a tile: down GROUP_M tile rows, then one tile column to the right, and so on."""
    group_tiles = GROUP_M * tiles_n
    first_m = tile // group_tiles * GROUP_M
    rows = tl.minimum(tiles_m - first_m, GROUP_M)
    return first_m + tile % group_tiles % rows, tile % group_tiles // rows


@triton.jit
def tile_kernel(
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
    stride_cs,
    stride_cm,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
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
        k_mask = tl.arange(0, BLOCK_K) < K - start - step * BLOCK_K
        # BLOCK_M · BLOCK_K elements of a and BLOCK_K · BLOCK_N of b give BLOCK_M · BLOCK_N · BLOCK_K products.
        a = tl.load(a_ptrs, mask=row_mask & k_mask[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=k_mask[:, None] & column_mask, other=0.0)
        # "ieee" matters for float32 only: without it a GPU rounds the operands to TF32's 10 bits.
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += a_step
        b_ptrs += b_step
    c_ptrs = c_ptr + split.to(tl.int64) * stride_cs + rows.to(tl.int64)[:, None] * stride_cm + columns[None, :]
    # The one rounding to the dtype of c.
    tl.store(c_ptrs, acc, mask=row_mask & column_mask)


@triton.jit
def store_part(
    part, row, column, c_desc, place, M, N, stride_cm, BLOCK_M: tl.constexpr, WIDTH: tl.constexpr, TMA: tl.constexpr
):
    """Store BLOCK_M × WIDTH elements, from a row and a column on."""
    if TMA:
        c_desc.store([row, column], part.to(c_desc.dtype))
    else:
        rows = row + tl.arange(0, BLOCK_M)
        columns = column + tl.arange(0, WIDTH)
        c_ptrs = place + rows.to(tl.int64)[:, None] * stride_cm + columns[None, :]
        tl.store(c_ptrs, part, mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def box_kernel(
    a_desc,
    b_desc,
    c_desc,
    c_ptr,
    M,
    N,
    K,
    stride_cm,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    A_COLUMNS: tl.constexpr,
    B_COLUMNS: tl.constexpr,
    TMA_STORE: tl.constexpr,
):
    """One tile of c for each program. Descriptors give zeros outside their matrix."""
    tile_m, tile_n = tile_place(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    row, column = tile_m * BLOCK_M, tile_n * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = a_desc.load([k, row]).T if A_COLUMNS else a_desc.load([row, k])
        b = b_desc.load([column, k]).T if B_COLUMNS else b_desc.load([k, column])
        acc = tl.dot(a, b, acc)
    store_part(acc, row, column, c_desc, c_ptr, M, N, stride_cm, BLOCK_M, BLOCK_N, TMA_STORE)


@triton.jit
def persistent_kernel(
    a_desc,
    b_desc,
    c_desc,
    c_ptr,
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
        HALF: tl.constexpr = BLOCK_N // 2
        left, right = tl.split(tl.permute(tl.reshape(acc, (BLOCK_M, 2, HALF)), (0, 2, 1)))
        row, column = tile_m * BLOCK_M, tile_n * BLOCK_N
        place = c_ptr + (done // tiles).to(tl.int64) * stride_cs
        store_part(left, row, column, c_desc, place, M, N, stride_cm, BLOCK_M, HALF, TMA_STORE)
        store_part(right, row, column + HALF, c_desc, place, M, N, stride_cm, BLOCK_M, HALF, TMA_STORE)


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
    """Return the SMs of a GPU."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else SMS


def tiling_for(a: torch.Tensor, b: torch.Tensor, sms: int) -> Tiling:
    """Return the largest tile that leaves no SM idle."""
    m, n = a.shape[0], b.shape[1]
    kind = "float" if a.dtype == torch.float32 else "half"
    if m <= SKINNY_ROWS:
        kind += " skinny"
    elif kind == "half" and not (reads_wide(a) and reads_wide(b)):
        kind += " unaligned"
    # 0.9: a tenth of the SMs without a tile costs less than smaller tiles do.
    filling = (one for one in TILES[kind] if triton.cdiv(m, one.block_m) * triton.cdiv(n, one.block_n) >= 0.9 * sms)
    return next(filling, TILES[kind][-1])


def splits_for(m: int, n: int, k: int, tiling: Tiling, sms: int) -> int:
    """Return how many programs the K of a tile is split over: enough to fill the SMs, each with enough to do."""
    tiles = triton.cdiv(m, tiling.block_m) * triton.cdiv(n, tiling.block_n)
    steps = triton.cdiv(k, tiling.block_k)
    return max(1, min(tiling.per_sm * sms // tiles, steps // SPLIT_STEPS))


def box_for(a: torch.Tensor, b: torch.Tensor, sms: int) -> Tiling | None:
    """Return the tile of box_kernel, or None if another kernel suits the product better."""
    (m, k), n = a.shape, b.shape[1]
    if a.dtype == torch.float32 or m * n * k > PERSISTENT_WORK or not (tma_major(a) and tma_major(b)):
        return None
    for box in BOXES:
        tiles = triton.cdiv(m, box.block_m) * triton.cdiv(n, box.block_n)
        if tiles <= box.per_sm * sms:
            # Too few rows, columns or tiles: then narrow tiles or a split K are better.
            fills = min(m, n) >= box.block_m and splits_for(m, n, k, box, sms) == 1
            return box if fills else None
    return None


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


def persistent_product(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    """c = a·b, for operands that TMA can read."""
    (m, k), n = a.shape, b.shape[1]
    sms = multiprocessors(a.device)
    splits = splits_for(m, n, k, PERSISTENT_SPLIT, sms)
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
        num_warps=tiling.warps,
        num_stages=tiling.stages,
    )
    if splits > 1:
        add_up(out, c)


def box_product(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, tiling: Tiling) -> None:
    """c = a·b, for operands that TMA can read, with a program for each tile."""
    (m, k), n = a.shape, b.shape[1]
    tma_store = tma_major(c) == "rows"
    a_major, b_major = tma_major(a), tma_major(b)
    box_kernel[(triton.cdiv(m, tiling.block_m) * triton.cdiv(n, tiling.block_n),)](
        descriptor(a, (tiling.block_m, tiling.block_k), a_major),
        descriptor(b, (tiling.block_k, tiling.block_n), b_major),
        descriptor(c, (tiling.block_m, tiling.block_n), "rows") if tma_store else None,
        c,
        m,
        n,
        k,
        n,
        BLOCK_M=tiling.block_m,
        BLOCK_N=tiling.block_n,
        BLOCK_K=tiling.block_k,
        GROUP_M=GROUP_M,
        A_COLUMNS=a_major == "columns",
        B_COLUMNS=b_major == "columns",
        TMA_STORE=tma_store,
        num_warps=tiling.warps,
        num_stages=tiling.stages,
    )


def tile_product(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    """c = a·b, for operands of any strides."""
    (m, k), n = a.shape, b.shape[1]
    sms = multiprocessors(a.device)
    tiling = tiling_for(a, b, sms)
    splits = splits_for(m, n, k, tiling, sms)
    out = c if splits == 1 else torch.empty((splits, m, n), dtype=torch.float32, device=c.device)
    tile_kernel[(triton.cdiv(m, tiling.block_m) * triton.cdiv(n, tiling.block_n), splits)](
        a,
        b,
        out,
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
    c = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
    box = box_for(a, b, multiprocessors(a.device))
    if box:
        box_product(a, b, c, box)
    elif not is_large(a, b):
        tile_product(a, b, c)
    elif tma_major(a) and tma_major(b):
        persistent_product(a, b, c)
    elif min(c.shape) >= PACKED_SIDE:
        persistent_product(*(x if tma_major(x) else packed(x) for x in (a, b)), c)
    else:
        tile_product(a, b, c)
    return c
