"""Model solution of ex_18: attention in tiles, forward and backward; the Sq × Skv weights never leave the registers.

forward_kernel          one program per BLOCK_M queries walks along the keys with an online softmax: o, lse
query_gradient_kernel   one program per BLOCK_M queries walks along the keys: dq, and two numbers per query, see below
key_gradient_kernel     one program per BLOCK_N keys walks along the queries of all heads that share them: dk, dv

Choices, and their reasons:

- Two kernels for the gradients, as dq is a sum over keys, and dk and dv are sums over queries. Each program owns what
  it adds up, so nothing needs atomic additions, and results are the same in every call. Price: seven products instead
  of five, because both kernels compute the weights again.
- The backward pass reads lse, so the weights exp(s - lse) need no second online softmax. It also needs the number
  delta = sum(o ∘ do) of every query. query_gradient_kernel has all of o and do in hand, so it stores delta, and lse in
  base 2, for key_gradient_kernel, which meets every query once per tile of keys.
- Weights are powers of two, exp(x) = 2**(x · log2 e), because the hardware computes those. The factor is part of
  qk_scale and costs nothing.
- The causal mask is a number. Query i sees keys j <= i + offset. Without a mask, `offset` is so large that every key is
  visible. One compiled kernel serves both.
- Only tiles on the diagonal and the last, partly filled one need a mask. A walk visits the tiles that all its queries
  see first, without one, and then the others. Tiles that no query sees are never read.
- A head's programs follow each other, so those that run at the same time share its keys and values in the L2 cache.
  Those with the most visible keys start first, so that the last ones to end are short.
- Tensors may have any strides, so tiles are loaded through pointers. (The copy engine of Hopper, TMA, would ask for
  multiples of 16 bytes.) A tuple holds a tensor's strides, and offsets have 64 bits, as a stride may be large.
- Few compiled forms. Triton compiles a kernel anew if an integer becomes 1 or a multiple of 16, or stops being one. For
  strides that is worth it: a multiple of 16 allows loads of 16 bytes, and almost all strides are one. Sizes come in all
  kinds and give nothing, so they are not specialised. No autotuner: it would compile every tiling for every D. One
  tiling per D is near the best on each GPU that we tried, and fits into the shared memory of all since sm_80.

Speed on an H100: see docs/timing.md. Kernels at record speed, for Hopper only, are in fast/.
"""

import math

import torch
import triton
import triton.language as tl


def tiling(block_m: int, block_n: int, warps: int, stages: int) -> dict[str, int]:
    """Return the options of a launch: queries and keys in a tile, its warps, and how many tiles are in flight."""
    return {"BLOCK_M": block_m, "BLOCK_N": block_n, "num_warps": warps, "num_stages": stages}


# By D; narrower heads take the tilings of 64. All of them need at most 96 KiB of shared memory.
FORWARD = {64: tiling(64, 64, 4, 3), 128: tiling(64, 64, 4, 2)}
QUERY_GRADIENT = {64: tiling(64, 64, 4, 3), 128: tiling(64, 64, 4, 2)}
KEY_GRADIENT = {64: tiling(64, 64, 4, 2), 128: tiling(32, 64, 4, 2)}

LOG2_E = math.log2(math.e)
SIZES = ("Hq", "group", "Sq", "Skv", "offset", "scale", "qk_scale")


@triton.jit
def pointers(ptr, strides, b, h, rows, D: tl.constexpr):
    """Return pointers to some rows of one head of a tensor [B, H, S, D]."""
    return ptr + b * strides[0] + h * strides[1] + rows.to(tl.int64)[:, None] * strides[2] + tl.arange(0, D)[None, :]


@triton.jit(do_not_specialize=SIZES)
def forward_kernel(
    q_ptr,
    q_strides,
    k_ptr,
    k_strides,
    v_ptr,
    v_strides,
    o_ptr,
    o_strides,
    lse_ptr,
    Hq,
    group,
    Sq,
    Skv,
    offset,
    qk_scale,
    D: tl.constexpr,
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
    rows, columns = first_row + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    row_mask = rows[:, None] < Sq
    # BLOCK_M · D elements of q, once.
    q = tl.load(pointers(q_ptr, q_strides, b, hq, rows, D), mask=row_mask, other=0.0)
    acc = tl.full((BLOCK_M, D), 0.0, dtype=tl.float32)
    total = tl.full((BLOCK_M,), 0.0, dtype=tl.float32)
    top = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    # All rows of this tile see the keys below `full`, and none sees a key from `last` on.
    full = tl.minimum(first_row + offset + 1, Skv)
    last = tl.minimum(first_row + offset + BLOCK_M, Skv)
    for start in range(0, last, BLOCK_N):
        keys = start + columns
        # BLOCK_N · D elements of k, and as many of v, for BLOCK_M queries.
        k = tl.load(pointers(k_ptr, k_strides, b, hq // group, keys, D), mask=keys[:, None] < Skv, other=0.0)
        v = tl.load(pointers(v_ptr, v_strides, b, hq // group, keys, D), mask=keys[:, None] < Skv, other=0.0)
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
    tl.store(pointers(o_ptr, o_strides, b, hq, rows, D), o.to(q.dtype), mask=row_mask)
    tl.store(lse_ptr + head.to(tl.int64) * Sq + rows, lse, mask=rows < Sq)


@triton.jit(do_not_specialize=SIZES)
def query_gradient_kernel(
    do_ptr,
    do_strides,
    q_ptr,
    q_strides,
    k_ptr,
    k_strides,
    v_ptr,
    v_strides,
    o_ptr,
    o_strides,
    lse_ptr,
    lse_strides,
    dq_ptr,
    dq_strides,
    delta_ptr,
    lse2_ptr,
    Hq,
    group,
    Sq,
    Skv,
    offset,
    scale,
    qk_scale,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """dq, delta and lse · log2 e of BLOCK_M queries of one head.

    A head moves Sq · D elements of q, do, o and dq, and Skv · D of k and v for every BLOCK_M queries;
    6 · Sq · Skv · D FLOP.
    """
    tiles = tl.cdiv(Sq, BLOCK_M)
    head = tl.program_id(0) // tiles
    first_row = (tiles - 1 - tl.program_id(0) % tiles) * BLOCK_M
    b, hq = (head // Hq).to(tl.int64), (head % Hq).to(tl.int64)
    rows, columns = first_row + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    row_mask = rows[:, None] < Sq
    # BLOCK_M · D elements of q, do and o, once.
    q = tl.load(pointers(q_ptr, q_strides, b, hq, rows, D), mask=row_mask, other=0.0)
    do = tl.load(pointers(do_ptr, do_strides, b, hq, rows, D), mask=row_mask, other=0.0)
    o = tl.load(pointers(o_ptr, o_strides, b, hq, rows, D), mask=row_mask, other=0.0)
    delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
    lse_ptrs = lse_ptr + b * lse_strides[0] + hq * lse_strides[1] + rows.to(tl.int64) * lse_strides[2]
    lse = tl.load(lse_ptrs, mask=rows < Sq, other=float("-inf"))
    # The weights of a row that sees nothing are 2**(s - inf) = 0.
    lse2 = tl.where(lse == float("-inf"), float("inf"), lse * 1.4426950408889634)
    places = head.to(tl.int64) * Sq + rows
    tl.store(delta_ptr + places, delta, mask=rows < Sq)
    tl.store(lse2_ptr + places, lse2, mask=rows < Sq)
    dq = tl.full((BLOCK_M, D), 0.0, dtype=tl.float32)
    full = tl.minimum(first_row + offset + 1, Skv)
    last = tl.minimum(first_row + offset + BLOCK_M, Skv)
    for start in range(0, last, BLOCK_N):
        keys = start + columns
        # BLOCK_N · D elements of k, and as many of v, for BLOCK_M queries.
        k = tl.load(pointers(k_ptr, k_strides, b, hq // group, keys, D), mask=keys[:, None] < Skv, other=0.0)
        v = tl.load(pointers(v_ptr, v_strides, b, hq // group, keys, D), mask=keys[:, None] < Skv, other=0.0)
        p = tl.exp2(tl.dot(q, tl.trans(k)) * qk_scale - lse2[:, None])
        if start + BLOCK_N > full:
            visible = (keys[None, :] < Skv) & (keys[None, :] <= rows[:, None] + offset)
            p = tl.where(visible, p, 0.0)
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    tl.store(pointers(dq_ptr, dq_strides, b, hq, rows, D), (dq * scale).to(q.dtype), mask=row_mask)


@triton.jit(do_not_specialize=SIZES)
def key_gradient_kernel(
    do_ptr,
    do_strides,
    q_ptr,
    q_strides,
    k_ptr,
    k_strides,
    v_ptr,
    v_strides,
    delta_ptr,
    lse2_ptr,
    dk_ptr,
    dv_ptr,
    gradient_strides,
    Hq,
    group,
    Sq,
    Skv,
    offset,
    scale,
    qk_scale,
    D: tl.constexpr,
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
    # BLOCK_N · D elements of k and v, once.
    k = tl.load(pointers(k_ptr, k_strides, b, hkv, keys, D), mask=key_mask, other=0.0)
    v = tl.load(pointers(v_ptr, v_strides, b, hkv, keys, D), mask=key_mask, other=0.0)
    dk = tl.full((BLOCK_N, D), 0.0, dtype=tl.float32)
    dv = tl.full((BLOCK_N, D), 0.0, dtype=tl.float32)
    # Key j is seen by queries i >= j - offset: those before `first` see no key of this tile, those from `full` on all.
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
        q = tl.load(pointers(q_ptr, q_strides, b, hq, rows, D), mask=inside[:, None], other=0.0)
        do = tl.load(pointers(do_ptr, do_strides, b, hq, rows, D), mask=inside[:, None], other=0.0)
        delta = tl.load(delta_ptr + places, mask=inside, other=0.0)
        # Beyond the last query, an lse of inf makes every weight 0.
        lse2 = tl.load(lse2_ptr + places, mask=inside, other=float("inf"))
        p = tl.exp2(tl.dot(k, tl.trans(q)) * qk_scale - lse2[None, :])
        if start < full:
            p = tl.where(keys[:, None] <= rows[None, :] + offset, p, 0.0)
        dv = tl.dot(p.to(do.dtype), do, dv)
        ds = p * (tl.dot(v, tl.trans(do)) - delta[None, :])
        dk = tl.dot(ds.to(q.dtype), q, dk)
    tl.store(pointers(dk_ptr, gradient_strides, b, hkv, keys, D), (dk * scale).to(k.dtype), mask=key_mask)
    tl.store(pointers(dv_ptr, gradient_strides, b, hkv, keys, D), dv.to(v.dtype), mask=key_mask)


def attention_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """o = softmax(scale · q kᵀ) v, and lse, the logarithm of every row's sum of exp."""
    (B, Hq, Sq, D), (Hkv, Skv) = q.shape, k.shape[1:3]
    scale = D**-0.5 if scale is None else float(scale)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    sizes = (Hq, Hq // Hkv, Sq, Skv, Skv - Sq if causal else Skv)
    tensors = (q, q.stride(), k, k.stride(), v, v.stride(), o, o.stride(), lse)
    options = FORWARD[max(64, D)]
    grid = (triton.cdiv(Sq, options["BLOCK_M"]) * B * Hq,)
    forward_kernel[grid](*tensors, *sizes, scale * LOG2_E, D=D, **options)
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
    inputs = (do, do.stride(), q, q.stride(), k, k.stride(), v, v.stride())
    options = QUERY_GRADIENT[max(64, D)]
    grid = (triton.cdiv(Sq, options["BLOCK_M"]) * B * Hq,)
    query_gradient_kernel[grid](
        *(*inputs, o, o.stride(), lse, lse.stride(), dq, dq.stride(), delta, lse2, *sizes), D=D, **options
    )
    options = KEY_GRADIENT[max(64, D)]
    grid = (triton.cdiv(Skv, options["BLOCK_N"]) * B * Hkv,)
    key_gradient_kernel[grid](*inputs, delta, lse2, dk, dv, dk.stride(), *sizes, D=D, **options)
    return dq, dk, dv
