"""Model solution of ex_18: attention in tiles, forward and backward; the Sq × Skv weights never leave the registers.

forward_kernel          one program per BLOCK_M queries walks along the keys with an online softmax: o, lse
query_gradient_kernel   one program per BLOCK_M queries walks along the keys: dq, and two numbers of every query
key_gradient_kernel     one program per BLOCK_N keys walks along the queries of all heads that share them: dk, dv

- Two kernels compute gradients, because dq is a sum over keys, and dk and dv are sums over queries. A program owns the
  sums it adds up: no atomic additions, the same bits in every call. Both compute the weights: seven products, not five.
- lse gives the weights exp(s - lse) without a second online softmax. Their gradient needs delta = sum(o ∘ do) of every
  query. query_gradient_kernel has both at hand; it stores delta, and lse in base 2, for key_gradient_kernel.
- Weights are powers of two, exp(x) = 2**(x · log2 e), because the hardware computes those.
- The causal mask is a number: query i sees keys j <= i + offset. Without the mask, offset = Skv lets it see all keys.
  Only tiles that some query sees are read, and only the last ones need the mask.
- Programs of one head follow each other, so they share its keys and values in the L2 cache. Those with the most visible
  keys start first, so no long one is left at the end.
- Any strides are allowed, so tiles are loaded through pointers. (Hopper's copy engine, TMA, wants multiples of 16 bytes
  and would be faster.) Offsets have 64 bits, as strides may be large.
- Few compiled forms. Triton compiles a kernel again for each set of arguments that are 1 or multiples of 16. We switch
  that off. One thing is worth two forms: rows that all start at multiples of 16 bytes are loaded 16 bytes at a time.
- One tiling for each D: an autotuner would compile several. It is the fastest of five on an H100, of those that every
  GPU since sm_80 has room for: 88 KiB of shared memory, 112 KiB on Hopper. Record speed on Hopper is in fast/.
"""

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl


def tiling(block_m: int, block_n: int, warps: int, stages: int) -> dict[str, int]:
    """Return the options of a launch: queries and keys in a tile, its warps, and how many tiles are in flight."""
    return {"BLOCK_M": block_m, "BLOCK_N": block_n, "num_warps": warps, "num_stages": stages}


# By D; narrower heads take the tilings of 64.
FORWARD = {64: tiling(128, 64, 8, 3), 128: tiling(64, 64, 4, 3)}
QUERY_GRADIENT = {64: tiling(64, 64, 4, 3), 128: tiling(64, 64, 4, 2)}
KEY_GRADIENT = {64: tiling(64, 64, 4, 2), 128: tiling(32, 64, 4, 2)}

LOG2_E = math.log2(math.e)


def for_all_sizes(body: Callable[..., None]) -> Any:
    """Return the kernel, which is compiled once for each set of constants."""
    parameters = inspect.signature(body).parameters.values()
    return triton.jit(body, do_not_specialize=[one.name for one in parameters if one.annotation is not tl.constexpr])


@triton.jit
def tile(ptr, rows, stride, D: tl.constexpr, ALIGNED: tl.constexpr):
    """Return pointers to some rows of the head [S, D] that starts at ptr."""
    starts = ptr + rows.to(tl.int64)[:, None] * stride
    if ALIGNED:
        # A promise to the compiler. Without it, each element would be loaded alone.
        starts = tl.multiple_of(starts, (16, 16))
    return starts + tl.arange(0, D)[None, :]


@for_all_sizes
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
    offset,
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
    ALIGNED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """o and lse of BLOCK_M queries of one head. group: query heads that share a kv head; qk_scale = scale · log2 e.

    A head moves Sq · D elements of q and o, and Skv · D of k and v for every BLOCK_M queries; 4 · Sq · Skv · D FLOP.
    """
    tiles = tl.cdiv(Sq, BLOCK_M)
    head = tl.program_id(0) // tiles
    # Late queries see the most keys.
    first_row = (tiles - 1 - tl.program_id(0) % tiles) * BLOCK_M
    b, hq = (head // Hq).to(tl.int64), (head % Hq).to(tl.int64)
    place = head.to(tl.int64) * Sq
    rows, columns = first_row + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    row_mask = rows[:, None] < Sq
    q_ptr += b * stride_qb + hq * stride_qh
    k_ptr += b * stride_kb + hq // group * stride_kh
    v_ptr += b * stride_vb + hq // group * stride_vh
    o_ptr += place * D
    # BLOCK_M · D elements of q, once.
    q = tl.load(tile(q_ptr, rows, stride_qs, D, ALIGNED), mask=row_mask, other=0.0)
    acc = tl.full((BLOCK_M, D), 0.0, dtype=tl.float32)
    total = tl.full((BLOCK_M,), 0.0, dtype=tl.float32)
    top = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    # All queries of the tile see the keys below `full`, and none sees a key from `last` on.
    full, last = tl.minimum(first_row + offset + 1, Skv), tl.minimum(first_row + offset + BLOCK_M, Skv)
    for start in range(0, last, BLOCK_N):
        keys = start + columns
        # BLOCK_N · D elements of k, and as many of v, for BLOCK_M queries.
        k = tl.load(tile(k_ptr, keys, stride_ks, D, ALIGNED), mask=keys[:, None] < Skv, other=0.0)
        v = tl.load(tile(v_ptr, keys, stride_vs, D, ALIGNED), mask=keys[:, None] < Skv, other=0.0)
        s = tl.dot(q, tl.trans(k)) * qk_scale
        if start + BLOCK_N > full:
            visible = (keys[None, :] < Skv) & (keys[None, :] <= rows[:, None] + offset)
            s = tl.where(visible, s, float("-inf"))
        new_top = tl.maximum(top, tl.max(s, 1))
        # A row that has seen no key yet: any finite shift will do, where -inf minus -inf would be NaN.
        shift = tl.where(new_top == float("-inf"), 0.0, new_top)
        p = tl.exp2(s - shift[:, None])
        # What was added up so far was relative to the old maximum.
        rescale = tl.exp2(top - shift)
        total = total * rescale + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * rescale[:, None])
        top = new_top
    # A row without keys: 0 / 1 = 0, and log2(0) = -inf.
    o = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    lse = (top + tl.log2(total)) * 0.6931471805599453
    tl.store(tile(o_ptr, rows, D, D, ALIGNED), o.to(q.dtype), mask=row_mask)
    tl.store(lse_ptr + place + rows, lse, mask=rows < Sq)


@for_all_sizes
def query_gradient_kernel(
    do_ptr,
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    lse_ptr,
    dq_ptr,
    delta_ptr,
    lse2_ptr,
    Hq,
    group,
    Sq,
    Skv,
    offset,
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
    stride_ob,
    stride_oh,
    stride_os,
    D: tl.constexpr,
    ALIGNED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """dq, delta and lse · log2 e of BLOCK_M queries of one head.

    A head moves Sq · D elements of q, do, o, dq, and Skv · D of k, v for every BLOCK_M queries; 6 · Sq · Skv · D FLOP.
    """
    tiles = tl.cdiv(Sq, BLOCK_M)
    head = tl.program_id(0) // tiles
    first_row = (tiles - 1 - tl.program_id(0) % tiles) * BLOCK_M
    b, hq = (head // Hq).to(tl.int64), (head % Hq).to(tl.int64)
    place = head.to(tl.int64) * Sq
    rows, columns = first_row + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    row_mask = rows[:, None] < Sq
    do_ptr += b * stride_gb + hq * stride_gh
    q_ptr += b * stride_qb + hq * stride_qh
    k_ptr += b * stride_kb + hq // group * stride_kh
    v_ptr += b * stride_vb + hq // group * stride_vh
    o_ptr += b * stride_ob + hq * stride_oh
    dq_ptr += place * D
    # BLOCK_M · D elements of q, do and o, once.
    q = tl.load(tile(q_ptr, rows, stride_qs, D, ALIGNED), mask=row_mask, other=0.0)
    do = tl.load(tile(do_ptr, rows, stride_gs, D, ALIGNED), mask=row_mask, other=0.0)
    o = tl.load(tile(o_ptr, rows, stride_os, D, ALIGNED), mask=row_mask, other=0.0)
    delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
    # The weights of a row that sees nothing are 2**(s - inf) = 0.
    lse = tl.load(lse_ptr + place + rows, mask=rows < Sq, other=float("-inf"))
    lse2 = tl.where(lse == float("-inf"), float("inf"), lse * 1.4426950408889634)
    tl.store(delta_ptr + place + rows, delta, mask=rows < Sq)
    tl.store(lse2_ptr + place + rows, lse2, mask=rows < Sq)
    dq = tl.full((BLOCK_M, D), 0.0, dtype=tl.float32)
    full, last = tl.minimum(first_row + offset + 1, Skv), tl.minimum(first_row + offset + BLOCK_M, Skv)
    for start in range(0, last, BLOCK_N):
        keys = start + columns
        k = tl.load(tile(k_ptr, keys, stride_ks, D, ALIGNED), mask=keys[:, None] < Skv, other=0.0)
        v = tl.load(tile(v_ptr, keys, stride_vs, D, ALIGNED), mask=keys[:, None] < Skv, other=0.0)
        p = tl.exp2(tl.dot(q, tl.trans(k)) * qk_scale - lse2[:, None])
        if start + BLOCK_N > full:
            visible = (keys[None, :] < Skv) & (keys[None, :] <= rows[:, None] + offset)
            p = tl.where(visible, p, 0.0)
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    tl.store(tile(dq_ptr, rows, D, D, ALIGNED), (dq * scale).to(q.dtype), mask=row_mask)


@for_all_sizes
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
    offset,
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
    ALIGNED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """dk and dv of BLOCK_N keys of one kv head, from the queries of all `group` heads that share it.

    Tiles of weights are transposed: keys are rows, queries are columns. A head moves Skv · D elements of k, v, dk and
    dv, and Sq · D of q and do for every BLOCK_N keys; 8 · Sq · Skv · D FLOP.
    """
    tiles = tl.cdiv(Skv, BLOCK_N)
    kv_head = tl.program_id(0) // tiles
    # Early keys are seen by the most queries.
    first_key = tl.program_id(0) % tiles * BLOCK_N
    b, hkv = (kv_head // (Hq // group)).to(tl.int64), (kv_head % (Hq // group)).to(tl.int64)
    keys, columns = first_key + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_M)
    key_mask = keys[:, None] < Skv
    do_ptr += b * stride_gb
    q_ptr += b * stride_qb
    k_ptr += b * stride_kb + hkv * stride_kh
    v_ptr += b * stride_vb + hkv * stride_vh
    dk_ptr += kv_head.to(tl.int64) * Skv * D
    dv_ptr += kv_head.to(tl.int64) * Skv * D
    # BLOCK_N · D elements of k and v, once.
    k = tl.load(tile(k_ptr, keys, stride_ks, D, ALIGNED), mask=key_mask, other=0.0)
    v = tl.load(tile(v_ptr, keys, stride_vs, D, ALIGNED), mask=key_mask, other=0.0)
    dk = tl.full((BLOCK_N, D), 0.0, dtype=tl.float32)
    dv = tl.full((BLOCK_N, D), 0.0, dtype=tl.float32)
    # Key j is seen by queries i >= j - offset: those before `first` see no key of the tile, those from `full` on all.
    first = tl.maximum(first_key - offset, 0) // BLOCK_M * BLOCK_M
    full = first_key + BLOCK_N - 1 - offset
    # One loop over tiles and heads: with one inside the other, registers would not suffice.
    for step in range(tl.cdiv(Sq - first, BLOCK_M) * group):
        hq = hkv * group + step % group
        start = first + step // group * BLOCK_M
        rows = start + columns
        inside = rows < Sq
        places = (b * Hq + hq) * Sq + rows
        # BLOCK_M · D elements of q, and as many of do, for BLOCK_N keys.
        q = tl.load(tile(q_ptr + hq * stride_qh, rows, stride_qs, D, ALIGNED), mask=inside[:, None], other=0.0)
        do = tl.load(tile(do_ptr + hq * stride_gh, rows, stride_gs, D, ALIGNED), mask=inside[:, None], other=0.0)
        delta = tl.load(delta_ptr + places, mask=inside, other=0.0)
        # Beyond the last query, an lse of inf makes every weight 0.
        lse2 = tl.load(lse2_ptr + places, mask=inside, other=float("inf"))
        p = tl.exp2(tl.dot(k, tl.trans(q)) * qk_scale - lse2[None, :])
        if start < full:
            p = tl.where(keys[:, None] <= rows[None, :] + offset, p, 0.0)
        dv = tl.dot(p.to(do.dtype), do, dv)
        ds = p * (tl.dot(v, tl.trans(do)) - delta[None, :])
        dk = tl.dot(ds.to(q.dtype), q, dk)
    tl.store(tile(dk_ptr, keys, D, D, ALIGNED), (dk * scale).to(k.dtype), mask=key_mask)
    tl.store(tile(dv_ptr, keys, D, D, ALIGNED), dv.to(v.dtype), mask=key_mask)


def layout(*tensors: torch.Tensor) -> tuple[list[int], bool]:
    """Return the strides of batch, head and row of each tensor, and whether all rows start at multiples of 16 bytes."""
    strides = [stride for one in tensors for stride in one.stride()[:3]]
    nbytes = (*(one.data_ptr() for one in tensors), *(stride * tensors[0].itemsize for stride in strides))
    return strides, all(number % 16 == 0 for number in nbytes)


def attention_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """o = softmax(scale · q kᵀ) v, and lse, the logarithm of every row's sum of exp."""
    (B, Hq, Sq, D), (Hkv, Skv) = q.shape, k.shape[1:3]
    scale = D**-0.5 if scale is None else float(scale)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    sizes = (Hq, Hq // Hkv, Sq, Skv, Skv - Sq if causal else Skv)
    strides, aligned = layout(q, k, v)
    options = FORWARD[max(64, D)]
    grid = (triton.cdiv(Sq, options["BLOCK_M"]) * B * Hq,)
    forward_kernel[grid](q, k, v, o, lse, *sizes, scale * LOG2_E, *strides, D=D, ALIGNED=aligned, **options)
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
    (B, Hq, Sq, D), (Hkv, Skv) = q.shape, k.shape[1:3]
    scale = D**-0.5 if scale is None else float(scale)
    dq, dk, dv = (torch.empty(one.shape, dtype=one.dtype, device=one.device) for one in (q, k, v))
    delta, lse2 = (torch.empty(q.shape[:3], dtype=torch.float32, device=q.device) for _ in range(2))
    sizes = (Hq, Hq // Hkv, Sq, Skv, Skv - Sq if causal else Skv, scale, scale * LOG2_E)
    strides, aligned = layout(do, q, k, v, o)
    options = QUERY_GRADIENT[max(64, D)]
    grid = (triton.cdiv(Sq, options["BLOCK_M"]) * B * Hq,)
    tensors = (do, q, k, v, o, lse.contiguous(), dq, delta, lse2)
    query_gradient_kernel[grid](*tensors, *sizes, *strides, D=D, ALIGNED=aligned, **options)
    options = KEY_GRADIENT[max(64, D)]
    grid = (triton.cdiv(Skv, options["BLOCK_N"]) * B * Hkv,)
    tensors = (do, q, k, v, delta, lse2, dk, dv)
    key_gradient_kernel[grid](*tensors, *sizes, *strides[:12], D=D, ALIGNED=aligned, **options)
    return dq, dk, dv
