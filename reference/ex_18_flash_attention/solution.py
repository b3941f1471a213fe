"""Model solution of ex_18: attention in tiles, forward and backward; the Sq × Skv weights never leave the registers.

forward_kernel          one program per BLOCK_M queries walks along the keys with an online softmax: o, lse
prepare_kernel          two numbers of every query for the backward pass: delta = sum(o ∘ do), and lse in base 2
key_gradient_kernel     one program per BLOCK_N keys walks along the queries of all heads that share them: dk, dv
query_gradient_kernel   one program per BLOCK_M queries walks along the keys: dq

A walk has two stages: fully visible tiles need no mask; tiles on the diagonal and the last, partly filled one do.
Weights are powers of two, exp(x) = 2**(x · log2 e), because the hardware computes those.

Small problems take a kernel's `any_shape`, compiled once for all sizes and strides. Large ones take `tuned`:
specialised on sizes and strides, with a tiling that was timed. Code for one architecture only (on Hopper: copies by
TMA, specialised warps, the softmax of one tile during the products of the next) belongs beside these; choose it in the
two public functions at the end.
"""

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl


class Tiling(NamedTuple):
    """Queries and keys in a tile, the warps that work on it, and how many tiles are in flight."""

    block_m: int
    block_n: int
    warps: int
    stages: int


# For any shape, up to D = 32 and beyond: at most 80 KiB of shared memory, which every GPU since sm_80 has.
ANY_NARROW = Tiling(128, 128, 8, 2)
ANY_WIDE = Tiling(64, 64, 4, 2)

# Tilings to time on a GPU, by head dimension (16 and 32 take those of 64). Without timing, the first one is taken.
FORWARD = {
    64: (Tiling(64, 64, 4, 3), Tiling(128, 64, 8, 3)),
    128: (Tiling(64, 64, 4, 3), Tiling(64, 64, 4, 2)),
}
KEY_GRADIENT = {
    64: (Tiling(32, 64, 4, 3), Tiling(64, 64, 4, 2)),
    128: (Tiling(64, 64, 4, 2), Tiling(32, 64, 4, 3)),
}
QUERY_GRADIENT = {
    64: (Tiling(64, 64, 4, 3), Tiling(128, 64, 4, 3)),
    128: (Tiling(128, 64, 8, 3), Tiling(64, 64, 4, 2)),
}

# Pairs of a query and a key from which on a problem is large.
LARGE_PAIRS = 1 << 23
PREPARE_ROWS = 32
LOG2_E = math.log2(math.e)
# Rows of a tile that lie further apart than this need 64 bits for their offsets.
NARROW_STRIDE = (1 << 31) // 128
HALVES = (torch.float16, torch.bfloat16)


@triton.jit
def attend(
    acc,
    total,
    top,
    q,
    k_ptr,
    v_ptr,
    rows,
    first,
    last,
    Skv,
    offset,
    qk_scale,
    stride_ks,
    stride_vs,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
    BLOCK_N: tl.constexpr,
    INDEX: tl.constexpr,
):
    """Walk over keys first … last by online softmax: total = sum of 2**(s - top), acc = sum of 2**(s - top) · v."""
    keys = tl.arange(0, BLOCK_N)
    k_tile = keys.to(INDEX)[:, None] * stride_ks + tl.arange(0, D)[None, :]
    v_tile = keys.to(INDEX)[:, None] * stride_vs + tl.arange(0, D)[None, :]
    k_step = tl.full((), BLOCK_N, tl.int64) * stride_ks
    v_step = tl.full((), BLOCK_N, tl.int64) * stride_vs
    k_ptr += first // BLOCK_N * k_step
    v_ptr += first // BLOCK_N * v_step
    for start in range(first, last, BLOCK_N):
        # BLOCK_N · D elements of k, and as many of v, for BLOCK_M queries.
        if MASKED:
            inside = start + keys < Skv
            k = tl.load(k_ptr + k_tile, mask=inside[:, None], other=0.0)
            v = tl.load(v_ptr + v_tile, mask=inside[:, None], other=0.0)
        else:
            k = tl.load(k_ptr + k_tile)
            v = tl.load(v_ptr + v_tile)
        s = tl.dot(q, tl.trans(k))
        if MASKED:
            visible = inside[None, :]
            if CAUSAL:
                visible &= start + keys[None, :] <= rows[:, None] + offset
            s = tl.where(visible, s * qk_scale, float("-inf"))
            new_top = tl.maximum(top, tl.max(s, 1))
            # A row that has seen no key yet: any finite shift will do, where -inf minus -inf would be NaN.
            shift = tl.where(new_top == float("-inf"), 0.0, new_top)
            p = tl.exp2(s - shift[:, None])
        else:
            new_top = tl.maximum(top, tl.max(s, 1) * qk_scale)
            shift = new_top
            # One fused multiply-add per weight.
            p = tl.exp2(s * qk_scale - shift[:, None])
        # What was added up so far was relative to the old maximum.
        rescale = tl.exp2(top - shift)
        total = total * rescale + tl.sum(p, 1)
        acc = acc * rescale[:, None]
        acc = tl.dot(p.to(v.dtype), v, acc)
        top = new_top
        k_ptr += k_step
        v_ptr += v_step
    return acc, total, top


def forward_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    lse_ptr,
    Hq,
    group,
    Sq,
    Skv,
    qk_scale,
    stride_qb,
    stride_qh,
    stride_qs,
    stride_kb,
    stride_kh,
    stride_ks,
    stride_vb,
    stride_vh,
    stride_vs,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
    NEGATIVE: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """o and lse of BLOCK_M queries of one head. qk_scale = |scale| · log2 e; NEGATIVE: the scale is below 0.

    A head moves Sq · D elements of q and o, and Skv · D of k and v for every BLOCK_M queries; 4 · Sq · Skv · D FLOP.
    """
    tiles = tl.cdiv(Sq, BLOCK_M)
    # Programs that run at the same time share a head's keys and values in L2.
    head = tl.program_id(0) // tiles
    tile = tl.program_id(0) % tiles
    if CAUSAL:
        # Late queries see the most keys: the longest programs start first.
        tile = tiles - 1 - tile
    b = (head // Hq).to(tl.int64)
    hq = (head % Hq).to(tl.int64)
    first_row = (tile * BLOCK_M).to(tl.int64)
    in_tile = tl.arange(0, BLOCK_M).to(INDEX)[:, None]
    dims = tl.arange(0, D)[None, :]
    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    row_mask = rows[:, None] < Sq
    q_ptr += b * stride_qb + hq * stride_qh + first_row * stride_qs
    k_ptr += b * stride_kb + hq // group * stride_kh
    v_ptr += b * stride_vb + hq // group * stride_vh
    # BLOCK_M · D elements of q, once; the sign of the scale goes with them.
    q = tl.load(q_ptr + in_tile * stride_qs + dims, mask=row_mask, other=0.0)
    if NEGATIVE:
        q = -q
    # Query i sees keys j <= i + offset: all rows of this tile see the keys below `full`, none those from `last` on.
    offset = Skv - Sq
    full = Skv
    last = Skv
    if CAUSAL:
        full = tl.minimum(tl.maximum(tile * BLOCK_M + offset + 1, 0), Skv)
        last = tl.minimum(tl.maximum(tile * BLOCK_M + offset + BLOCK_M, 0), Skv)
    full = full // BLOCK_N * BLOCK_N
    acc = tl.full((BLOCK_M, D), 0.0, dtype=tl.float32)
    total = tl.full((BLOCK_M,), 0.0, dtype=tl.float32)
    top = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    acc, total, top = attend(
        *(acc, total, top, q, k_ptr, v_ptr, rows, 0, full, Skv, offset, qk_scale, stride_ks, stride_vs),
        *(D, CAUSAL, False, BLOCK_N, INDEX),
    )
    acc, total, top = attend(
        *(acc, total, top, q, k_ptr, v_ptr, rows, full, last, Skv, offset, qk_scale, stride_ks, stride_vs),
        *(D, CAUSAL, True, BLOCK_N, INDEX),
    )
    # A row without keys: 0 / 1 = 0, and log2(0) = -inf.
    o = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    lse = (top + tl.log2(total)) * 0.6931471805599453
    o_ptr += (head.to(tl.int64) * Sq + first_row) * D
    tl.store(o_ptr + in_tile * D + dims, o.to(o_ptr.dtype.element_ty), mask=row_mask)
    tl.store(lse_ptr + head.to(tl.int64) * Sq + rows, lse, mask=rows < Sq)


def prepare_kernel(
    do_ptr,
    o_ptr,
    lse_ptr,
    delta_ptr,
    lse2_ptr,
    Hq,
    Sq,
    stride_gb,
    stride_gh,
    stride_gs,
    stride_ob,
    stride_oh,
    stride_os,
    stride_lb,
    stride_lh,
    stride_ls,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """delta = sum(o ∘ do) and lse · log2 e of BLOCK queries of one head; 2 · D elements read per query."""
    tiles = tl.cdiv(Sq, BLOCK)
    head = tl.program_id(0) // tiles
    b = (head // Hq).to(tl.int64)
    hq = (head % Hq).to(tl.int64)
    rows = (tl.program_id(0) % tiles * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    inside = rows < Sq
    dims = tl.arange(0, D)[None, :]
    o_ptrs = o_ptr + b * stride_ob + hq * stride_oh + rows[:, None] * stride_os + dims
    do_ptrs = do_ptr + b * stride_gb + hq * stride_gh + rows[:, None] * stride_gs + dims
    o = tl.load(o_ptrs, mask=inside[:, None], other=0.0).to(tl.float32)
    do = tl.load(do_ptrs, mask=inside[:, None], other=0.0).to(tl.float32)
    lse = tl.load(lse_ptr + b * stride_lb + hq * stride_lh + rows * stride_ls, mask=inside, other=0.0)
    # The weights of a row that sees nothing are 2**(s - inf) = 0.
    lse2 = tl.where(lse == float("-inf"), float("inf"), lse * 1.4426950408889634)
    tl.store(delta_ptr + head.to(tl.int64) * Sq + rows, tl.sum(o * do, 1), mask=inside)
    tl.store(lse2_ptr + head.to(tl.int64) * Sq + rows, lse2, mask=inside)


@triton.jit
def add_key_gradients(
    dk,
    dv,
    k,
    k_signed,
    v,
    do_ptr,
    q_ptr,
    delta_ptr,
    lse2_ptr,
    keys,
    first,
    full,
    Sq,
    offset,
    qk_scale,
    stride_gs,
    stride_qs,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    INDEX: tl.constexpr,
):
    """Add what the queries from `first` on give to dk and dv of a tile of keys; those before `full` need the mask.

    Tiles of weights are transposed: keys are rows, queries are columns.
    """
    queries = tl.arange(0, BLOCK_M)
    q_tile = queries.to(INDEX)[:, None] * stride_qs + tl.arange(0, D)[None, :]
    do_tile = queries.to(INDEX)[:, None] * stride_gs + tl.arange(0, D)[None, :]
    q_step = tl.full((), BLOCK_M, tl.int64) * stride_qs
    do_step = tl.full((), BLOCK_M, tl.int64) * stride_gs
    q_ptr += first // BLOCK_M * q_step
    do_ptr += first // BLOCK_M * do_step
    for start in range(first, Sq, BLOCK_M):
        rows = start + queries
        inside = rows < Sq
        # BLOCK_M · D elements of q, and as many of do, for BLOCK_N keys.
        q = tl.load(q_ptr + q_tile, mask=inside[:, None], other=0.0)
        # Beyond the last query, an lse of inf makes every weight 0.
        lse2 = tl.load(lse2_ptr + rows, mask=inside, other=float("inf"))
        s = tl.dot(k_signed, tl.trans(q))
        p = tl.exp2(s * qk_scale - lse2[None, :])
        # A branch, as a second loop would need more registers than there are.
        if CAUSAL and start < full:
            p = tl.where(keys[:, None] <= rows[None, :] + offset, p, 0.0)
        do = tl.load(do_ptr + do_tile, mask=inside[:, None], other=0.0)
        dv = tl.dot(p.to(do.dtype), do, dv)
        delta = tl.load(delta_ptr + rows, mask=inside, other=0.0)
        dp = tl.dot(v, tl.trans(do))
        ds = p * (dp - delta[None, :])
        dk = tl.dot(ds.to(q.dtype), q, dk)
        q_ptr += q_step
        do_ptr += do_step
    return dk, dv


def key_gradient_kernel(
    do_ptr,
    q_ptr,
    k_ptr,
    v_ptr,
    delta_ptr,
    lse2_ptr,
    dk_ptr,
    dv_ptr,
    Hq,
    group,
    Sq,
    Skv,
    scale,
    qk_scale,
    stride_gb,
    stride_gh,
    stride_gs,
    stride_qb,
    stride_qh,
    stride_qs,
    stride_kb,
    stride_kh,
    stride_ks,
    stride_vb,
    stride_vh,
    stride_vs,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
    NEGATIVE: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """dk and dv of BLOCK_N keys of one kv head, from the queries of all `group` heads that share it.

    A head moves Skv · D elements of k, v, dk and dv, and Sq · D of q and do for every BLOCK_N keys;
    8 · Sq · Skv · D FLOP.
    """
    tiles = tl.cdiv(Skv, BLOCK_N)
    kv_head = tl.program_id(0) // tiles
    tile = tl.program_id(0) % tiles
    b = (kv_head // (Hq // group)).to(tl.int64)
    hkv = (kv_head % (Hq // group)).to(tl.int64)
    first_key = (tile * BLOCK_N).to(tl.int64)
    in_tile = tl.arange(0, BLOCK_N).to(INDEX)[:, None]
    dims = tl.arange(0, D)[None, :]
    keys = tile * BLOCK_N + tl.arange(0, BLOCK_N)
    key_mask = keys[:, None] < Skv
    k_ptr += b * stride_kb + hkv * stride_kh + first_key * stride_ks
    v_ptr += b * stride_vb + hkv * stride_vh + first_key * stride_vs
    # BLOCK_N · D elements of k and v, once.
    k = tl.load(k_ptr + in_tile * stride_ks + dims, mask=key_mask, other=0.0)
    v = tl.load(v_ptr + in_tile * stride_vs + dims, mask=key_mask, other=0.0)
    k_signed = k
    if NEGATIVE:
        k_signed = -k
    # Key j is seen by queries i >= j - offset: those before `first` see no key of this tile, those from `full` on all.
    offset = Skv - Sq
    first = 0
    full = 0
    if CAUSAL:
        first = tl.maximum(tile * BLOCK_N - offset, 0) // BLOCK_M * BLOCK_M
        full = tile * BLOCK_N + BLOCK_N - 1 - offset
    dk = tl.full((BLOCK_N, D), 0.0, dtype=tl.float32)
    dv = tl.full((BLOCK_N, D), 0.0, dtype=tl.float32)
    for member in range(group):
        hq = hkv * group + member
        place = (b * Hq + hq) * Sq
        q_head = q_ptr + b * stride_qb + hq * stride_qh
        do_head = do_ptr + b * stride_gb + hq * stride_gh
        dk, dv = add_key_gradients(
            *(dk, dv, k, k_signed, v, do_head, q_head, delta_ptr + place, lse2_ptr + place, keys, first, full),
            *(Sq, offset, qk_scale, stride_gs, stride_qs, D, CAUSAL, BLOCK_M, INDEX),
        )
    places = (kv_head.to(tl.int64) * Skv + first_key) * D + in_tile * D + dims
    tl.store(dk_ptr + places, (dk * scale).to(dk_ptr.dtype.element_ty), mask=key_mask)
    tl.store(dv_ptr + places, dv.to(dv_ptr.dtype.element_ty), mask=key_mask)


@triton.jit
def add_query_gradient(
    dq,
    q,
    do,
    delta,
    lse2,
    k_ptr,
    v_ptr,
    rows,
    first,
    last,
    Skv,
    offset,
    qk_scale,
    stride_ks,
    stride_vs,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
    BLOCK_N: tl.constexpr,
    INDEX: tl.constexpr,
):
    """Add what keys first … last give to dq of a tile of queries."""
    keys = tl.arange(0, BLOCK_N)
    k_tile = keys.to(INDEX)[:, None] * stride_ks + tl.arange(0, D)[None, :]
    v_tile = keys.to(INDEX)[:, None] * stride_vs + tl.arange(0, D)[None, :]
    k_step = tl.full((), BLOCK_N, tl.int64) * stride_ks
    v_step = tl.full((), BLOCK_N, tl.int64) * stride_vs
    k_ptr += first // BLOCK_N * k_step
    v_ptr += first // BLOCK_N * v_step
    for start in range(first, last, BLOCK_N):
        # BLOCK_N · D elements of k, and as many of v, for BLOCK_M queries.
        if MASKED:
            inside = start + keys < Skv
            k = tl.load(k_ptr + k_tile, mask=inside[:, None], other=0.0)
            v = tl.load(v_ptr + v_tile, mask=inside[:, None], other=0.0)
        else:
            k = tl.load(k_ptr + k_tile)
            v = tl.load(v_ptr + v_tile)
        p = tl.exp2(tl.dot(q, tl.trans(k)) * qk_scale - lse2[:, None])
        if MASKED:
            visible = inside[None, :]
            if CAUSAL:
                visible &= start + keys[None, :] <= rows[:, None] + offset
            p = tl.where(visible, p, 0.0)
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
        k_ptr += k_step
        v_ptr += v_step
    return dq


def query_gradient_kernel(
    do_ptr,
    q_ptr,
    k_ptr,
    v_ptr,
    delta_ptr,
    lse2_ptr,
    dq_ptr,
    Hq,
    group,
    Sq,
    Skv,
    scale,
    qk_scale,
    stride_gb,
    stride_gh,
    stride_gs,
    stride_qb,
    stride_qh,
    stride_qs,
    stride_kb,
    stride_kh,
    stride_ks,
    stride_vb,
    stride_vh,
    stride_vs,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
    NEGATIVE: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """dq of BLOCK_M queries of one head.

    A head moves Sq · D elements of q, do and dq, and Skv · D of k and v for every BLOCK_M queries;
    6 · Sq · Skv · D FLOP.
    """
    tiles = tl.cdiv(Sq, BLOCK_M)
    head = tl.program_id(0) // tiles
    tile = tl.program_id(0) % tiles
    if CAUSAL:
        tile = tiles - 1 - tile
    b = (head // Hq).to(tl.int64)
    hq = (head % Hq).to(tl.int64)
    first_row = (tile * BLOCK_M).to(tl.int64)
    in_tile = tl.arange(0, BLOCK_M).to(INDEX)[:, None]
    dims = tl.arange(0, D)[None, :]
    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    row_mask = rows[:, None] < Sq
    q_ptr += b * stride_qb + hq * stride_qh + first_row * stride_qs
    do_ptr += b * stride_gb + hq * stride_gh + first_row * stride_gs
    k_ptr += b * stride_kb + hq // group * stride_kh
    v_ptr += b * stride_vb + hq // group * stride_vh
    # BLOCK_M · D elements of q and do, and two numbers per query, once.
    q = tl.load(q_ptr + in_tile * stride_qs + dims, mask=row_mask, other=0.0)
    do = tl.load(do_ptr + in_tile * stride_gs + dims, mask=row_mask, other=0.0)
    delta = tl.load(delta_ptr + head.to(tl.int64) * Sq + rows, mask=rows < Sq, other=0.0)
    lse2 = tl.load(lse2_ptr + head.to(tl.int64) * Sq + rows, mask=rows < Sq, other=float("inf"))
    if NEGATIVE:
        q = -q
    offset = Skv - Sq
    full = Skv
    last = Skv
    if CAUSAL:
        full = tl.minimum(tl.maximum(tile * BLOCK_M + offset + 1, 0), Skv)
        last = tl.minimum(tl.maximum(tile * BLOCK_M + offset + BLOCK_M, 0), Skv)
    full = full // BLOCK_N * BLOCK_N
    dq = tl.full((BLOCK_M, D), 0.0, dtype=tl.float32)
    dq = add_query_gradient(
        *(dq, q, do, delta, lse2, k_ptr, v_ptr, rows, 0, full, Skv, offset, qk_scale, stride_ks, stride_vs),
        *(D, CAUSAL, False, BLOCK_N, INDEX),
    )
    dq = add_query_gradient(
        *(dq, q, do, delta, lse2, k_ptr, v_ptr, rows, full, last, Skv, offset, qk_scale, stride_ks, stride_vs),
        *(D, CAUSAL, True, BLOCK_N, INDEX),
    )
    dq_ptr += (head.to(tl.int64) * Sq + first_row) * D
    tl.store(dq_ptr + in_tile * D + dims, (dq * scale).to(dq_ptr.dtype.element_ty), mask=row_mask)


def for_any_shape(body: Callable[..., None]) -> Any:
    """Return the kernel without specialisation: compiled once for all sizes, strides and alignments."""
    parameters = inspect.signature(body).parameters.values()
    return triton.jit(body, do_not_specialize=[one.name for one in parameters if one.annotation is not tl.constexpr])


def timed(body: Callable[..., None], tilings: Sequence[Tiling]) -> Any:
    """Return the specialised kernel; the first call for a dtype times the tilings, with and without the causal mask."""
    configs = [
        triton.Config({"BLOCK_M": one.block_m, "BLOCK_N": one.block_n}, num_warps=one.warps, num_stages=one.stages)
        for one in tilings
    ]
    return triton.autotune(configs, key=["D", "CAUSAL"])(triton.jit(body))


class Kernel:
    """A kernel in both forms. `side` is the block along which the grid counts its programs."""

    def __init__(self, body: Callable[..., None], tilings: dict[int, Sequence[Tiling]], side: str) -> None:
        self.side = side
        self.any_shape = for_any_shape(body)
        self.tuned = {width: timed(body, row) for width, row in tilings.items()}

    def launch(self, length: int, heads: int, *args: Any, large: bool, **constants: Any) -> None:
        """One program per tile of the `length` rows of each head."""

        def grid(meta: dict[str, Any]) -> tuple[int]:
            return (triton.cdiv(length, meta[self.side]) * heads,)

        if large:
            self.tuned[max(64, constants["D"])][grid](*args, **constants)
        else:
            tiling = ANY_NARROW if constants["D"] <= 32 else ANY_WIDE
            blocks = {"BLOCK_M": tiling.block_m, "BLOCK_N": tiling.block_n}
            self.any_shape[grid](*args, **constants, **blocks, num_warps=tiling.warps, num_stages=tiling.stages)


FORWARD_KERNEL = Kernel(forward_kernel, FORWARD, "BLOCK_M")
KEY_GRADIENT_KERNEL = Kernel(key_gradient_kernel, KEY_GRADIENT, "BLOCK_N")
QUERY_GRADIENT_KERNEL = Kernel(query_gradient_kernel, QUERY_GRADIENT, "BLOCK_M")
PREPARE_KERNELS = {False: for_any_shape(prepare_kernel), True: triton.jit(prepare_kernel)}


def row_strides(*tensors: torch.Tensor) -> list[int]:
    """Return the strides of batch, head and row of each tensor [B, H, S, D]."""
    return [stride for one in tensors for stride in one.stride()[:3]]


def constants_for(
    q: torch.Tensor, k: torch.Tensor, strides: Sequence[int], causal: bool, scale: float
) -> dict[str, Any]:
    """Return the constants that a kernel is compiled for, and whether the problem is large."""
    if q.dtype not in HALVES:
        raise TypeError(f"q must be float16 or bfloat16, got {q.dtype}")
    batch, heads, queries, width = q.shape
    return {
        "D": width,
        "CAUSAL": bool(causal),
        "NEGATIVE": scale < 0,
        "INDEX": tl.int32 if max(strides) < NARROW_STRIDE else tl.int64,
        "large": q.is_cuda and batch * heads * queries * k.shape[2] >= LARGE_PAIRS,
    }


def attention_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """o = softmax(scale · q kᵀ) v, and lse, the logarithm of every row's sum of exp."""
    batch, heads, queries, width = q.shape
    kv_heads, keys = k.shape[1:3]
    scale = width**-0.5 if scale is None else float(scale)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    strides = row_strides(q, k, v)
    sizes = (heads, heads // kv_heads, queries, keys, abs(scale) * LOG2_E)
    constants = constants_for(q, k, strides, causal, scale)
    FORWARD_KERNEL.launch(queries, batch * heads, q, k, v, o, lse, *sizes, *strides, **constants)
    return o, lse


def attention_backward(
    do: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dq, dk and dv, from weights exp(s - lse) that are computed again, tile by tile."""
    batch, heads, queries, width = q.shape
    kv_heads, keys = k.shape[1:3]
    scale = width**-0.5 if scale is None else float(scale)
    dq, dk, dv = (torch.empty(one.shape, dtype=one.dtype, device=one.device) for one in (q, k, v))
    delta, lse2 = (torch.empty(q.shape[:3], dtype=torch.float32, device=q.device) for _ in range(2))
    strides = row_strides(do, q, k, v)
    sizes = (heads, heads // kv_heads, queries, keys, scale, abs(scale) * LOG2_E)
    constants = constants_for(q, k, strides, causal, scale)
    PREPARE_KERNELS[constants["large"]][(triton.cdiv(queries, PREPARE_ROWS) * batch * heads,)](
        *(do, o, lse, delta, lse2, heads, queries, *row_strides(do, o), *lse.stride()), D=width, BLOCK=PREPARE_ROWS
    )
    inputs = (do, q, k, v, delta, lse2)
    KEY_GRADIENT_KERNEL.launch(keys, batch * kv_heads, *inputs, dk, dv, *sizes, *strides, **constants)
    QUERY_GRADIENT_KERNEL.launch(queries, batch * heads, *inputs, dq, *sizes, *strides, **constants)
    return dq, dk, dv
