"""attention_forward: no_rescale

l is multiplied by alpha, the accumulator is not.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def fwd_kernel(
    Q, K, V, O, LSE, Hq, group, Sq, Skv, qk_scale,
    sqb, sqh, sqs, skb, skh, sks, svb, svh, svs,
    D: tl.constexpr, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):
    start_m = tl.program_id(0)
    bh = tl.program_id(1)
    b = (bh // Hq).to(tl.int64)
    h = (bh % Hq).to(tl.int64)
    hk = h // group
    offs_m = start_m * BM + tl.arange(0, BM)
    offs_d = tl.arange(0, D)
    q = tl.load(
        Q + b * sqb + h * sqh + offs_m.to(tl.int64)[:, None] * sqs + offs_d[None, :],
        mask=offs_m[:, None] < Sq, other=0.0,
    )
    m_i = tl.full([BM], float("-inf"), tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    hi = Skv
    if CAUSAL:
        hi = tl.minimum(Skv, (start_m + 1) * BM + Skv - Sq)
    for start_n in range(0, hi, BN):
        offs_n = start_n + tl.arange(0, BN)
        k = tl.load(
            K + b * skb + hk * skh + offs_n.to(tl.int64)[None, :] * sks + offs_d[:, None],
            mask=offs_n[None, :] < Skv, other=0.0,
        )
        qk = tl.dot(q, k) * qk_scale
        visible = offs_n[None, :] < Skv
        if CAUSAL:
            visible = visible & (offs_n[None, :] <= offs_m[:, None] + (Skv - Sq))
        qk = tl.where(visible, qk, float("-inf"))
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        m_safe = tl.where(m_ij == float("-inf"), 0.0, m_ij)
        p = tl.exp2(qk - m_safe[:, None])
        alpha = tl.exp2(m_i - m_safe)
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(
            V + b * svb + hk * svh + offs_n.to(tl.int64)[:, None] * svs + offs_d[None, :],
            mask=offs_n[:, None] < Skv, other=0.0,
        )
        acc = tl.dot(p.to(v.dtype), v, acc)
        m_i = m_ij
    l_safe = tl.where(l_i == 0.0, 1.0, l_i)
    acc = acc / l_safe[:, None]
    lse = (m_i + tl.log2(l_safe)) * 0.6931471805599453
    row = bh.to(tl.int64) * Sq + offs_m
    tl.store(LSE + row, lse, mask=offs_m < Sq)
    tl.store(O + row[:, None] * D + offs_d[None, :], acc.to(O.dtype.element_ty), mask=offs_m[:, None] < Sq)


def attention_forward(q, k, v, causal=False, scale=None):
    B, Hq, Sq, D = q.shape
    Hkv, Skv = k.shape[1], k.shape[2]
    if scale is None:
        scale = D**-0.5
    o = torch.empty((B, Hq, Sq, D), dtype=q.dtype, device=q.device)
    lse = torch.empty((B, Hq, Sq), dtype=torch.float32, device=q.device)
    BM, BN = 64, 32
    fwd_kernel[(triton.cdiv(Sq, BM), B * Hq)](
        q, k, v, o, lse, Hq, Hq // Hkv, Sq, Skv, scale * 1.4426950408889634,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3],
        D=D, CAUSAL=causal, BM=BM, BN=BN, num_warps=4,
    )
    return o, lse
