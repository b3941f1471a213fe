"""attention_backward: delta is the mean of dp, weighted by p, found in a pass over all keys; o is not read.

The division by the sum of p takes away the rounding of lse, which is large where logits are.
"""

import torch
import triton
import triton.language as tl

TILE = 32


@triton.jit
def weights_and_their_gradient(do, q, k, v, lse, rows, keys, Sq, Skv, scale, CAUSAL: tl.constexpr):
    """p and dp of a tile of queries and a tile of keys."""
    seen = (rows[:, None] < Sq) & (keys[None, :] < Skv) & (lse > float("-inf"))[:, None]
    if CAUSAL:
        seen &= keys[None, :] <= rows[:, None] + Skv - Sq
    logits = tl.dot(q, tl.trans(k)) * scale
    return tl.exp(tl.where(seen, logits - lse[:, None], float("-inf"))), tl.dot(do, tl.trans(v))


@triton.jit
def tile_of(ptr, at, stride, places, count, D: tl.constexpr):
    return tl.load(
        ptr + at + places.to(tl.int64)[:, None] * stride + tl.arange(0, D)[None, :],
        mask=places[:, None] < count,
        other=0.0,
    )


@triton.jit
def query_kernel(
    do_ptr, q_ptr, k_ptr, v_ptr, lse_ptr, delta_ptr, dq_ptr, group, Sq, Skv, scale,
    gb, gh, gs, qb, qh, qs, kb, kh, ks, vb, vh, vs,
    D: tl.constexpr, CAUSAL: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    h, b = tl.program_id(1), tl.program_id(2).to(tl.int64)
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    do = tile_of(do_ptr, b * gb + h * gh, gs, rows, Sq, D)
    q = tile_of(q_ptr, b * qb + h * qh, qs, rows, Sq, D)
    place = (b * tl.num_programs(1) + h) * Sq
    lse = tl.load(lse_ptr + place + rows, mask=rows < Sq, other=float("-inf"))
    end = Skv
    if CAUSAL:
        end = tl.minimum(Skv, (tl.program_id(0) + 1) * TILE + Skv - Sq)
    of_k, of_v = b * kb + h // group * kh, b * vb + h // group * vh
    delta, total = tl.zeros((TILE,), tl.float32), tl.zeros((TILE,), tl.float32)
    for start in range(0, end, TILE):
        keys = start + tl.arange(0, TILE)
        k, v = tile_of(k_ptr, of_k, ks, keys, Skv, D), tile_of(v_ptr, of_v, vs, keys, Skv, D)
        p, dp = weights_and_their_gradient(do, q, k, v, lse, rows, keys, Sq, Skv, scale, CAUSAL)
        delta += tl.sum(p * dp, 1)
        total += tl.sum(p, 1)
    delta /= tl.where(total > 0, total, 1.0)
    tl.store(delta_ptr + place + rows, delta, mask=rows < Sq)
    dq = tl.zeros((TILE, D), tl.float32)
    for start in range(0, end, TILE):
        keys = start + tl.arange(0, TILE)
        k, v = tile_of(k_ptr, of_k, ks, keys, Skv, D), tile_of(v_ptr, of_v, vs, keys, Skv, D)
        p, dp = weights_and_their_gradient(do, q, k, v, lse, rows, keys, Sq, Skv, scale, CAUSAL)
        dq = tl.dot((p * (dp - delta[:, None])).to(k.dtype), k, dq)
    dq_ptrs = dq_ptr + (place + rows[:, None]) * D + tl.arange(0, D)[None, :]
    tl.store(dq_ptrs, (dq * scale).to(q.dtype), mask=rows[:, None] < Sq)


@triton.jit
def key_kernel(
    do_ptr, q_ptr, k_ptr, v_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, group, Sq, Skv, scale,
    gb, gh, gs, qb, qh, qs, kb, kh, ks, vb, vh, vs,
    D: tl.constexpr, CAUSAL: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    g, b = tl.program_id(1), tl.program_id(2).to(tl.int64)
    keys = tl.program_id(0) * TILE + tl.arange(0, TILE)
    k = tile_of(k_ptr, b * kb + g * kh, ks, keys, Skv, D)
    v = tile_of(v_ptr, b * vb + g * vh, vs, keys, Skv, D)
    dk, dv = tl.zeros((TILE, D), tl.float32), tl.zeros((TILE, D), tl.float32)
    first = 0
    if CAUSAL:
        first = tl.maximum(tl.program_id(0) * TILE - (Skv - Sq), 0) // TILE * TILE
    for h in range(g * group, g * group + group):
        place = (b * tl.num_programs(1) * group + h) * Sq
        for start in range(first, Sq, TILE):
            rows = start + tl.arange(0, TILE)
            do = tile_of(do_ptr, b * gb + h * gh, gs, rows, Sq, D)
            q = tile_of(q_ptr, b * qb + h * qh, qs, rows, Sq, D)
            lse = tl.load(lse_ptr + place + rows, mask=rows < Sq, other=float("-inf"))
            delta = tl.load(delta_ptr + place + rows, mask=rows < Sq, other=0.0)
            p, dp = weights_and_their_gradient(do, q, k, v, lse, rows, keys, Sq, Skv, scale, CAUSAL)
            dv = tl.dot(tl.trans(p.to(do.dtype)), do, dv)
            dk = tl.dot(tl.trans((p * (dp - delta[:, None])).to(q.dtype)), q, dk)
    places = ((b * tl.num_programs(1) + g) * Skv + keys[:, None]) * D + tl.arange(0, D)[None, :]
    tl.store(dk_ptr + places, (dk * scale).to(k.dtype), mask=keys[:, None] < Skv)
    tl.store(dv_ptr + places, dv.to(v.dtype), mask=keys[:, None] < Skv)


def attention_backward(do, q, k, v, o, lse, causal=False, scale=None):
    (B, Hq, Sq, D), (Hkv, Skv) = q.shape, k.shape[1:3]
    dq, dk, dv = (torch.empty(one.shape, dtype=one.dtype, device=one.device) for one in (q, k, v))
    delta = torch.empty(lse.shape, dtype=torch.float32, device=q.device)
    scale = D**-0.5 if scale is None else scale
    strides = [stride for one in (do, q, k, v) for stride in one.stride()[:3]]
    common = (Hq // Hkv, Sq, Skv, scale, *strides, D, causal, TILE)
    query_kernel[(triton.cdiv(Sq, TILE), Hq, B)](do, q, k, v, lse, delta, dq, *common)
    key_kernel[(triton.cdiv(Skv, TILE), Hkv, B)](do, q, k, v, lse, delta, dk, dv, *common)
    return dq, dk, dv
