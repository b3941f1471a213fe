"""attention_backward: delta_missing

dp + delta instead of dp - delta in the kernel of dk and dv.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def bwd_delta(O, DO, Delta, Hq, Sq, sob, soh, sos, sgb, sgh, sgs, D: tl.constexpr, BM: tl.constexpr):
    bh = tl.program_id(1)
    b = (bh // Hq).to(tl.int64)
    h = (bh % Hq).to(tl.int64)
    i = (tl.program_id(0) * BM + tl.arange(0, BM)).to(tl.int64)
    d = tl.arange(0, D)
    mask = i[:, None] < Sq
    o = tl.load(O + b * sob + h * soh + i[:, None] * sos + d[None, :], mask=mask, other=0.0).to(tl.float32)
    do = tl.load(DO + b * sgb + h * sgh + i[:, None] * sgs + d[None, :], mask=mask, other=0.0).to(tl.float32)
    tl.store(Delta + bh.to(tl.int64) * Sq + i, tl.sum(o * do, 1), mask=i < Sq)


@triton.jit
def bwd_dkdv(
    DO, Q, K, V, LSE, Delta, DK, DV, Hq, Hkv, Sq, Skv, scale,
    sgb, sgh, sgs, sqb, sqh, sqs, skb, skh, sks, svb, svh, svs,
    D: tl.constexpr, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):
    n0 = tl.program_id(0) * BN
    bh = tl.program_id(1)
    b = (bh // Hkv).to(tl.int64)
    hk = (bh % Hkv).to(tl.int64)
    group = Hq // Hkv
    j = n0 + tl.arange(0, BN)
    d = tl.arange(0, D)
    jm = j[:, None] < Skv
    k = tl.load(K + b * skb + hk * skh + j.to(tl.int64)[:, None] * sks + d[None, :], mask=jm, other=0.0)
    v = tl.load(V + b * svb + hk * svh + j.to(tl.int64)[:, None] * svs + d[None, :], mask=jm, other=0.0)
    dk = tl.zeros([BN, D], tl.float32)
    dv = tl.zeros([BN, D], tl.float32)
    first = 0
    if CAUSAL:
        first = tl.maximum(n0 - (Skv - Sq), 0) // BM * BM
    for g in range(group):
        h = hk * group + g
        for m0 in range(first, Sq, BM):
            i = m0 + tl.arange(0, BM)
            im = i < Sq
            q = tl.load(Q + b * sqb + h * sqh + i.to(tl.int64)[:, None] * sqs + d[None, :], mask=im[:, None], other=0.0)
            do = tl.load(DO + b * sgb + h * sgh + i.to(tl.int64)[:, None] * sgs + d[None, :], mask=im[:, None], other=0.0)
            lse = tl.load(LSE + (b * Hq + h) * Sq + i, mask=im, other=0.0)
            delta = tl.load(Delta + (b * Hq + h) * Sq + i, mask=im, other=0.0)
            s = tl.dot(q, tl.trans(k)) * scale
            visible = im[:, None] & (j[None, :] < Skv) & (lse > float("-inf"))[:, None]
            if CAUSAL:
                visible = visible & (j[None, :] <= i[:, None] + Skv - Sq)
            p = tl.where(visible, tl.exp(s - lse[:, None]), 0.0)
            dv += tl.dot(tl.trans(p.to(do.dtype)), do)
            dp = tl.dot(do, tl.trans(v))
            ds = tl.where(visible, p * (dp + delta[:, None]), 0.0)
            dk += tl.dot(tl.trans(ds.to(q.dtype)), q)
    at = (bh.to(tl.int64) * Skv + j)[:, None] * D + d[None, :]
    tl.store(DK + at, (dk * scale).to(DK.dtype.element_ty), mask=jm)
    tl.store(DV + at, dv.to(DV.dtype.element_ty), mask=jm)


@triton.jit
def bwd_dq(
    DO, Q, K, V, LSE, Delta, DQ, Hq, Hkv, Sq, Skv, scale,
    sgb, sgh, sgs, sqb, sqh, sqs, skb, skh, sks, svb, svh, svs,
    D: tl.constexpr, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):
    m0 = tl.program_id(0) * BM
    bh = tl.program_id(1)
    b = (bh // Hq).to(tl.int64)
    h = (bh % Hq).to(tl.int64)
    hk = h // (Hq // Hkv)
    i = m0 + tl.arange(0, BM)
    d = tl.arange(0, D)
    im = i < Sq
    q = tl.load(Q + b * sqb + h * sqh + i.to(tl.int64)[:, None] * sqs + d[None, :], mask=im[:, None], other=0.0)
    do = tl.load(DO + b * sgb + h * sgh + i.to(tl.int64)[:, None] * sgs + d[None, :], mask=im[:, None], other=0.0)
    lse = tl.load(LSE + bh.to(tl.int64) * Sq + i, mask=im, other=0.0)
    delta = tl.load(Delta + bh.to(tl.int64) * Sq + i, mask=im, other=0.0)
    dq = tl.zeros([BM, D], tl.float32)
    last = Skv
    if CAUSAL:
        last = tl.minimum(Skv, m0 + BM + Skv - Sq)
    for n0 in range(0, last, BN):
        j = n0 + tl.arange(0, BN)
        jm = j[:, None] < Skv
        k = tl.load(K + b * skb + hk * skh + j.to(tl.int64)[:, None] * sks + d[None, :], mask=jm, other=0.0)
        v = tl.load(V + b * svb + hk * svh + j.to(tl.int64)[:, None] * svs + d[None, :], mask=jm, other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        visible = im[:, None] & (j[None, :] < Skv) & (lse > float("-inf"))[:, None]
        if CAUSAL:
            visible = visible & (j[None, :] <= i[:, None] + Skv - Sq)
        p = tl.where(visible, tl.exp(s - lse[:, None]), 0.0)
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dq += tl.dot(ds.to(k.dtype), k)
    at = (bh.to(tl.int64) * Sq + i)[:, None] * D + d[None, :]
    tl.store(DQ + at, (dq * scale).to(DQ.dtype.element_ty), mask=im[:, None])


def attention_backward(do, q, k, v, o, lse, causal=False, scale=None):
    B, Hq, Sq, D = q.shape
    Hkv, Skv = k.shape[1:3]
    scale = D**-0.5 if scale is None else scale
    dq = torch.empty((B, Hq, Sq, D), dtype=q.dtype, device=q.device)
    dk = torch.empty((B, Hkv, Skv, D), dtype=q.dtype, device=q.device)
    dv = torch.empty((B, Hkv, Skv, D), dtype=q.dtype, device=q.device)
    delta = torch.empty((B, Hq, Sq), dtype=torch.float32, device=q.device)
    BM = BN = 64
    strides = (*do.stride()[:3], *q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
    bwd_delta[(triton.cdiv(Sq, BM), B * Hq)](o, do, delta, Hq, Sq, *o.stride()[:3], *do.stride()[:3], D=D, BM=BM)
    bwd_dkdv[(triton.cdiv(Skv, BN), B * Hkv)](
        do, q, k, v, lse, delta, dk, dv, Hq, Hkv, Sq, Skv, scale, *strides, D=D, CAUSAL=causal, BM=BM, BN=BN
    )
    bwd_dq[(triton.cdiv(Sq, BM), B * Hq)](
        do, q, k, v, lse, delta, dq, Hq, Hkv, Sq, Skv, scale, *strides, D=D, CAUSAL=causal, BM=BM, BN=BN
    )
    return dq, dk, dv
