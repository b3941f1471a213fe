"""attention_forward: logarithm_base

lse is returned as a base-2 logarithm.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def split_forward_kernel(
    q_ptr, k_ptr, v_ptr, part_ptr, lse_ptr, Hq, group, Sq, Skv, chunk, qk_scale,
    sqb, sqh, sqs, skb, skh, sks, svb, svh, svs,
    D: tl.constexpr, CAUSAL: tl.constexpr, SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):
    """A tile of queries against one chunk of the keys; the chunk's o and base-2 lse, in float32."""
    split = tl.program_id(1)
    bh = tl.program_id(2)
    b = (bh // Hq).to(tl.int64)
    h = (bh % Hq).to(tl.int64)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    rm = rows < Sq
    q = tl.load(q_ptr + b * sqb + h * sqh + rows.to(tl.int64)[:, None] * sqs + d[None, :], mask=rm[:, None], other=0.0)
    kp = k_ptr + b * skb + h // group * skh
    vp = v_ptr + b * svb + h // group * svh
    lo = split * chunk
    hi = tl.minimum(lo + chunk, Skv)
    if CAUSAL:
        hi = tl.minimum(hi, tl.program_id(0) * BM + BM + Skv - Sq)
    m = tl.full((BM,), float("-inf"), tl.float32)
    l = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(lo, hi, BN):
        cols = start + tl.arange(0, BN)
        cm = cols < hi
        k = tl.load(kp + cols.to(tl.int64)[:, None] * sks + d[None, :], mask=cm[:, None], other=0.0)
        v = tl.load(vp + cols.to(tl.int64)[:, None] * svs + d[None, :], mask=cm[:, None], other=0.0)
        ok = cm[None, :]
        if CAUSAL:
            ok = ok & (cols[None, :] <= rows[:, None] + Skv - Sq)
        s = tl.where(ok, tl.dot(q, tl.trans(k)) * qk_scale, float("-inf"))
        mn = tl.maximum(m, tl.max(s, 1))
        z = tl.where(mn == float("-inf"), 0.0, mn)
        p = tl.exp2(s - z[:, None])
        c = tl.exp2(m - z)
        l = l * c + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * c[:, None])
        m = mn
    one = tl.where(l > 0.0, l, 1.0)
    at = (split.to(tl.int64) * tl.num_programs(2) + bh) * Sq + rows
    lse = m + tl.log2(one)
    if not SPLIT:
        lse *= 0.6931471805599453
    tl.store(part_ptr + at[:, None] * D + d[None, :], (acc / one[:, None]).to(part_ptr.dtype.element_ty), mask=rm[:, None])
    tl.store(lse_ptr + at, lse, mask=rm)


@triton.jit
def join_forward_kernel(
    part_ptr, part_lse_ptr, o_ptr, lse_ptr, rows, D: tl.constexpr, SPLITS: tl.constexpr, BM: tl.constexpr
):
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    rm = r < rows
    top = tl.full((BM,), float("-inf"), tl.float32)
    for s in tl.static_range(SPLITS):
        top = tl.maximum(top, tl.load(part_lse_ptr + s * rows + r, mask=rm, other=0.0))
    ref = tl.where(top == float("-inf"), 0.0, top)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for s in tl.static_range(SPLITS):
        w = tl.exp2(tl.load(part_lse_ptr + s * rows + r, mask=rm, other=0.0) - ref)
        total += w
        acc += w[:, None] * tl.load(part_ptr + (s * rows + r)[:, None] * D + d[None, :], mask=rm[:, None], other=0.0)
    one = tl.where(total > 0.0, total, 1.0)
    tl.store(o_ptr + r[:, None] * D + d[None, :], (acc / one[:, None]).to(o_ptr.dtype.element_ty), mask=rm[:, None])
    lse = top + tl.log2(one)
    tl.store(lse_ptr + r, lse, mask=rm)


def attention_forward(q, k, v, causal=False, scale=None):
    B, Hq, Sq, D = q.shape
    Hkv, Skv = k.shape[1:3]
    scale = D**-0.5 if scale is None else scale
    # Partial results cost traffic: split only what is long.
    splits = 2 if Skv >= 128 and Sq >= 64 else 1
    chunk = triton.cdiv(triton.cdiv(Skv, splits), 32) * 32
    o = torch.empty((B, Hq, Sq, D), dtype=q.dtype, device=q.device)
    lse = torch.empty((B, Hq, Sq), dtype=torch.float32, device=q.device)
    part, part_lse = o, lse
    if splits > 1:
        part = torch.empty((splits, B, Hq, Sq, D), dtype=torch.float32, device=q.device)
        part_lse = torch.empty((splits, B, Hq, Sq), dtype=torch.float32, device=q.device)
    split_forward_kernel[(triton.cdiv(Sq, 64), splits, B * Hq)](
        q, k, v, part, part_lse, Hq, Hq // Hkv, Sq, Skv, chunk, scale * 1.4426950408889634,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], D=D, CAUSAL=causal, SPLIT=splits > 1, BM=64, BN=32,
    )
    if splits > 1:
        rows = B * Hq * Sq
        join_forward_kernel[(triton.cdiv(rows, 64),)](part, part_lse, o, lse, rows, D=D, SPLITS=splits, BM=64)
    return o, lse
