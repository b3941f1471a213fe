"""attention_backward: not_all_covered

The grid of dk and dv is counted from Sq, so keys beyond Sq's tiles are never stored.

Needs triton < 3.9: block pointers.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def dkdv_block_kernel(
    DO, Q, K, V, LSE, DELTA, DK, DV, Hq, Hkv, Sq, Skv, shift, scale, qk_scale,
    sgb, sgh, sgs, sqb, sqh, sqs, skb, skh, sks, svb, svh, svs,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):
    """Transposed tiles by block pointers: keys are rows."""
    n0 = tl.program_id(0) * BN
    bh = tl.program_id(1)
    b = (bh // Hkv).to(tl.int64)
    hk = (bh % Hkv).to(tl.int64)
    group = Hq // Hkv
    kb = tl.make_block_ptr(K + b * skb + hk * skh, (Skv, D), (sks, 1), (n0, 0), (BN, D), (1, 0))
    vb = tl.make_block_ptr(V + b * svb + hk * svh, (Skv, D), (svs, 1), (n0, 0), (BN, D), (1, 0))
    k = tl.load(kb, boundary_check=(0,), padding_option="zero")
    v = tl.load(vb, boundary_check=(0,), padding_option="zero")
    j = n0 + tl.arange(0, BN)
    dk = tl.zeros((BN, D), tl.float32)
    dv = tl.zeros((BN, D), tl.float32)
    lo = tl.maximum(n0 - shift, 0) // BM * BM
    for g in range(group):
        h = hk * group + g
        qb = tl.make_block_ptr(Q + b * sqb + h * sqh, (Sq, D), (sqs, 1), (lo, 0), (BM, D), (1, 0))
        gb = tl.make_block_ptr(DO + b * sgb + h * sgh, (Sq, D), (sgs, 1), (lo, 0), (BM, D), (1, 0))
        for m0 in range(lo, Sq, BM):
            q = tl.load(qb, boundary_check=(0,), padding_option="zero")
            do = tl.load(gb, boundary_check=(0,), padding_option="zero")
            i = m0 + tl.arange(0, BM)
            lse = tl.load(LSE + (b * Hq + h) * Sq + i, mask=i < Sq, other=float("-inf"))
            delta = tl.load(DELTA + (b * Hq + h) * Sq + i, mask=i < Sq, other=0.0)
            big = tl.where(lse == float("-inf"), float("inf"), lse * 1.4426950408889634)
            st = tl.dot(k, tl.trans(q)) * qk_scale
            pt = tl.exp2(st - big[None, :])
            pt = tl.where(j[:, None] <= i[None, :] + shift, pt, 0.0)
            dv = tl.dot(pt.to(do.dtype), do, dv)
            dst = pt * (tl.dot(v, tl.trans(do)) - delta[None, :])
            dk = tl.dot(dst.to(q.dtype), q, dk)
            qb = tl.advance(qb, (BM, 0))
            gb = tl.advance(gb, (BM, 0))
    dkb = tl.make_block_ptr(DK + bh.to(tl.int64) * Skv * D, (Skv, D), (D, 1), (n0, 0), (BN, D), (1, 0))
    dvb = tl.make_block_ptr(DV + bh.to(tl.int64) * Skv * D, (Skv, D), (D, 1), (n0, 0), (BN, D), (1, 0))
    tl.store(dkb, (dk * scale).to(DK.dtype.element_ty), boundary_check=(0,))
    tl.store(dvb, dv.to(DV.dtype.element_ty), boundary_check=(0,))


@triton.jit
def dq_block_kernel(
    DO, Q, K, V, O, LSE, DELTA, DQ, Hq, Hkv, Sq, Skv, shift, scale, qk_scale,
    sgb, sgh, sgs, sqb, sqh, sqs, skb, skh, sks, svb, svh, svs, sob, soh, sos,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):
    pid = tl.program_id(0)
    tiles = tl.cdiv(Sq, BM)
    m0 = (pid % tiles) * BM
    bh = pid // tiles
    b = (bh // Hq).to(tl.int64)
    h = (bh % Hq).to(tl.int64)
    hk = h // (Hq // Hkv)
    qb = tl.make_block_ptr(Q + b * sqb + h * sqh, (Sq, D), (sqs, 1), (m0, 0), (BM, D), (1, 0))
    gb = tl.make_block_ptr(DO + b * sgb + h * sgh, (Sq, D), (sgs, 1), (m0, 0), (BM, D), (1, 0))
    ob = tl.make_block_ptr(O + b * sob + h * soh, (Sq, D), (sos, 1), (m0, 0), (BM, D), (1, 0))
    q = tl.load(qb, boundary_check=(0,), padding_option="zero")
    do = tl.load(gb, boundary_check=(0,), padding_option="zero")
    o = tl.load(ob, boundary_check=(0,), padding_option="zero")
    i = m0 + tl.arange(0, BM)
    delta = tl.sum(do.to(tl.float32) * o.to(tl.float32), 1)
    tl.store(DELTA + bh.to(tl.int64) * Sq + i, delta, mask=i < Sq)
    lse = tl.load(LSE + bh.to(tl.int64) * Sq + i, mask=i < Sq, other=float("-inf"))
    big = tl.where(lse == float("-inf"), float("inf"), lse * 1.4426950408889634)
    kb = tl.make_block_ptr(K + b * skb + hk * skh, (Skv, D), (sks, 1), (0, 0), (BN, D), (1, 0))
    vb = tl.make_block_ptr(V + b * svb + hk * svh, (Skv, D), (svs, 1), (0, 0), (BN, D), (1, 0))
    dq = tl.zeros((BM, D), tl.float32)
    for n0 in range(0, tl.minimum(Skv, m0 + BM + shift), BN):
        k = tl.load(kb, boundary_check=(0,), padding_option="zero")
        v = tl.load(vb, boundary_check=(0,), padding_option="zero")
        j = n0 + tl.arange(0, BN)
        p = tl.exp2(tl.dot(q, tl.trans(k)) * qk_scale - big[:, None])
        p = tl.where((j[None, :] < Skv) & (j[None, :] <= i[:, None] + shift), p, 0.0)
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
        kb = tl.advance(kb, (BN, 0))
        vb = tl.advance(vb, (BN, 0))
    out = tl.make_block_ptr(DQ + bh.to(tl.int64) * Sq * D, (Sq, D), (D, 1), (m0, 0), (BM, D), (1, 0))
    tl.store(out, (dq * scale).to(DQ.dtype.element_ty), boundary_check=(0,))


def attention_backward(do, q, k, v, o, lse, causal=False, scale=None):
    B, Hq, Sq, D = q.shape
    Hkv, Skv = k.shape[1:3]
    scale = D**-0.5 if scale is None else scale
    shift = Skv - Sq if causal else Skv
    dq = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    dk = torch.empty(k.shape, dtype=q.dtype, device=q.device)
    dv = torch.empty(v.shape, dtype=q.dtype, device=q.device)
    delta = torch.empty(lse.shape, dtype=torch.float32, device=q.device)
    numbers = (Hq, Hkv, Sq, Skv, shift, scale, scale * 1.4426950408889634)
    strides = (*do.stride()[:3], *q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
    BM, BN = 32, 32
    dq_block_kernel[(triton.cdiv(Sq, BM) * B * Hq,)](
        do, q, k, v, o, lse, delta, dq, *numbers, *strides, *o.stride()[:3], D=D, BM=BM, BN=BN
    )
    dkdv_block_kernel[(triton.cdiv(Sq, BN), B * Hkv)](
        do, q, k, v, lse, delta, dk, dv, *numbers, *strides, D=D, BM=BM, BN=BN
    )
    return dq, dk, dv
