"""attention_forward: scaled_maximum

The maximum is taken of k·q before the scale; with a negative scale it is the least logit and exp overflows.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def forward_keys_first_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, Hq, Hkv, Sq, Skv, scale,
    sqb, sqh, sqs, skb, skh, sks, svb, svh, svs,
    D: tl.constexpr, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):
    """The tile of logits is transposed: keys are rows, queries are columns."""
    h = tl.program_id(1).to(tl.int64)
    b = tl.program_id(2).to(tl.int64)
    hk = h // (Hq // Hkv)
    qi = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    qt = tl.load(
        q_ptr + b * sqb + h * sqh + qi.to(tl.int64)[None, :] * sqs + d[:, None], mask=qi[None, :] < Sq, other=0.0
    )
    m = tl.full((BM,), float("-inf"), tl.float32)
    l = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((D, BM), tl.float32)
    limit = qi + (Skv - Sq if CAUSAL else Skv)
    stop = tl.minimum(Skv, tl.max(limit, 0) + 1)
    for start in range(0, stop, BN):
        kj = start + tl.arange(0, BN)
        kmask = kj[:, None] < Skv
        k = tl.load(k_ptr + b * skb + hk * skh + kj.to(tl.int64)[:, None] * sks + d[None, :], mask=kmask, other=0.0)
        st = tl.dot(k, qt)
        st = tl.where(kmask & (kj[:, None] <= limit[None, :]), st, float("-inf"))
        m_new = tl.maximum(m, tl.max(st, 0))
        base = tl.where(m_new == float("-inf"), 0.0, m_new)
        pt = tl.where(st == float("-inf"), 0.0, tl.exp((st - base[None, :]) * scale))
        f = tl.where(m == float("-inf"), 0.0, tl.exp((m - base) * scale))
        l = l * f + tl.sum(pt, 0)
        vt = tl.load(
            v_ptr + b * svb + hk * svh + kj.to(tl.int64)[None, :] * svs + d[:, None], mask=kj[None, :] < Skv, other=0.0
        )
        acc = acc * f[None, :] + tl.dot(vt, pt.to(vt.dtype))
        m = m_new
    some = l > 0.0
    l = tl.where(some, l, 1.0)
    at = (b * Hq + h) * Sq + qi
    tl.store(o_ptr + at[None, :] * D + d[:, None], (acc / l[None, :]).to(o_ptr.dtype.element_ty), mask=qi[None, :] < Sq)
    tl.store(lse_ptr + at, tl.where(some, m * scale + tl.log(l), float("-inf")), mask=qi < Sq)


def attention_forward(q, k, v, causal=False, scale=None):
    B, Hq, Sq, D = q.shape
    Hkv, Skv = k.shape[1:3]
    scale = 1.0 / D**0.5 if scale is None else scale
    o = torch.empty((B, Hq, Sq, D), dtype=q.dtype, device=q.device)
    lse = torch.empty((B, Hq, Sq), dtype=torch.float32, device=q.device)
    forward_keys_first_kernel[(triton.cdiv(Sq, 64), Hq, B)](
        q, k, v, o, lse, Hq, Hkv, Sq, Skv, scale,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], D=D, CAUSAL=causal, BM=64, BN=64,
    )
    return o, lse
