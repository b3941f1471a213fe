"""attention_backward: heads_not_summed or stores_collide

Every query head stores its own dk and dv straight to its kv head, so only the last one's remain.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def weights_tile(q, k, lse, i, j, Sq, Skv, offset, scale):
    """p of a tile [queries, keys]; 0 where a query sees nothing."""
    s = tl.dot(q, tl.trans(k)) * scale
    see = (i[:, None] < Sq) & (j[None, :] < Skv) & (j[None, :] <= i[:, None] + offset)
    see = see & (lse[:, None] != float("-inf"))
    return tl.where(see, tl.exp(s - tl.where(lse == float("-inf"), 0.0, lse)[:, None]), 0.0)


@triton.jit
def per_head_kernel(
    do_ptr, q_ptr, k_ptr, v_ptr, lse_ptr, delta_ptr, dkh_ptr, dvh_ptr,
    Hq, group, Sq, Skv, offset, scale,
    sgb, sgh, sgs, sqb, sqh, sqs, skb, skh, sks, svb, svh, svs,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):
    """dk and dv of a tile of keys."""
    n0 = tl.program_id(0) * BN
    h = tl.program_id(1).to(tl.int64)
    b = tl.program_id(2).to(tl.int64)
    hk = h // group
    j = n0 + tl.arange(0, BN)
    d = tl.arange(0, D)
    k = tl.load(k_ptr + b * skb + hk * skh + j.to(tl.int64)[:, None] * sks + d, mask=j[:, None] < Skv, other=0.0)
    v = tl.load(v_ptr + b * svb + hk * svh + j.to(tl.int64)[:, None] * svs + d, mask=j[:, None] < Skv, other=0.0)
    dk = tl.zeros((BN, D), tl.float32)
    dv = tl.zeros((BN, D), tl.float32)
    for m0 in range(tl.maximum(n0 - offset, 0) // BM * BM, Sq, BM):
        i = m0 + tl.arange(0, BM)
        q = tl.load(q_ptr + b * sqb + h * sqh + i.to(tl.int64)[:, None] * sqs + d, mask=i[:, None] < Sq, other=0.0)
        do = tl.load(do_ptr + b * sgb + h * sgh + i.to(tl.int64)[:, None] * sgs + d, mask=i[:, None] < Sq, other=0.0)
        row = (b * Hq + h) * Sq + i
        lse = tl.load(lse_ptr + row, mask=i < Sq, other=float("-inf"))
        delta = tl.load(delta_ptr + row, mask=i < Sq, other=0.0)
        p = weights_tile(q, k, lse, i, j, Sq, Skv, offset, scale)
        dv += tl.dot(tl.trans(p).to(do.dtype), do)
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dk += tl.dot(tl.trans(ds).to(q.dtype), q)
    at = ((b * (Hq // group) + hk) * Skv + j)[:, None] * D + d[None, :]
    tl.store(dkh_ptr + at, (dk * scale).to(dkh_ptr.dtype.element_ty), mask=j[:, None] < Skv)
    tl.store(dvh_ptr + at, dv.to(dvh_ptr.dtype.element_ty), mask=j[:, None] < Skv)


@triton.jit
def query_side_kernel(
    do_ptr, q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, delta_ptr, dq_ptr,
    Hq, group, Sq, Skv, offset, scale,
    sgb, sgh, sgs, sqb, sqh, sqs, skb, skh, sks, svb, svh, svs, sob, soh, sos,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):
    """delta and dq of a tile of queries."""
    m0 = tl.program_id(0) * BM
    h = tl.program_id(1).to(tl.int64)
    b = tl.program_id(2).to(tl.int64)
    hk = h // group
    i = m0 + tl.arange(0, BM)
    il = i.to(tl.int64)[:, None]
    d = tl.arange(0, D)[None, :]
    im = i[:, None] < Sq
    q = tl.load(q_ptr + b * sqb + h * sqh + il * sqs + d, mask=im, other=0.0)
    do = tl.load(do_ptr + b * sgb + h * sgh + il * sgs + d, mask=im, other=0.0)
    o = tl.load(o_ptr + b * sob + h * soh + il * sos + d, mask=im, other=0.0)
    delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
    row = (b * Hq + h) * Sq + i
    tl.store(delta_ptr + row, delta, mask=i < Sq)
    lse = tl.load(lse_ptr + row, mask=i < Sq, other=float("-inf"))
    dq = tl.zeros((BM, D), tl.float32)
    for n0 in range(0, tl.minimum(Skv, m0 + BM + offset), BN):
        j = n0 + tl.arange(0, BN)
        k = tl.load(k_ptr + b * skb + hk * skh + j.to(tl.int64)[:, None] * sks + d, mask=j[:, None] < Skv, other=0.0)
        v = tl.load(v_ptr + b * svb + hk * svh + j.to(tl.int64)[:, None] * svs + d, mask=j[:, None] < Skv, other=0.0)
        p = weights_tile(q, k, lse, i, j, Sq, Skv, offset, scale)
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    tl.store(dq_ptr + row[:, None] * D + d, (dq * scale).to(dq_ptr.dtype.element_ty), mask=im)


def attention_backward(do, q, k, v, o, lse, causal=False, scale=None):
    B, Hq, Sq, D = q.shape
    Hkv, Skv = k.shape[1:3]
    group = Hq // Hkv
    scale = D**-0.5 if scale is None else scale
    offset = Skv - Sq if causal else Skv
    new = lambda *shape, dtype=q.dtype: torch.empty(shape, dtype=dtype, device=q.device)
    dq, dk, dv = new(B, Hq, Sq, D), new(B, Hkv, Skv, D), new(B, Hkv, Skv, D)
    delta = new(B, Hq, Sq, dtype=torch.float32)
    strides = [s for x in (do, q, k, v, o) for s in x.stride()[:3]]
    query_side_kernel[(triton.cdiv(Sq, 64), Hq, B)](
        do, q, k, v, o, lse, delta, dq, Hq, group, Sq, Skv, offset, scale, *strides, D=D, BM=64, BN=32
    )
    per_head_kernel[(triton.cdiv(Skv, 32), Hq, B)](
        do, q, k, v, lse, delta, dk, dv, Hq, group, Sq, Skv, offset, scale, *strides[:12], D=D, BM=64, BN=32
    )
    return dq, dk, dv
