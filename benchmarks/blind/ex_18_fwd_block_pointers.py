"""attention_forward: causal_alignment

The causal mask compares row and column numbers from the first key (rows >= cols), and the loop ends at the
diagonal.

Needs triton < 3.9: block pointers.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def forward_block_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, group, Sq, Skv, scale,
    sqb, sqh, sqs, skb, skh, sks, svb, svh, svs, sob, soh, sos, slb, slh,
    D: tl.constexpr, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):
    m0 = tl.program_id(2) * BM
    h = tl.program_id(1).to(tl.int64)
    b = tl.program_id(0).to(tl.int64)
    g = h // group
    Qb = tl.make_block_ptr(q_ptr + b * sqb + h * sqh, (Sq, D), (sqs, 1), (m0, 0), (BM, D), (1, 0))
    Kb = tl.make_block_ptr(k_ptr + b * skb + g * skh, (D, Skv), (1, sks), (0, 0), (D, BN), (0, 1))
    Vb = tl.make_block_ptr(v_ptr + b * svb + g * svh, (Skv, D), (svs, 1), (0, 0), (BN, D), (1, 0))
    q = tl.load(Qb, boundary_check=(0,), padding_option="zero")
    rows = m0 + tl.arange(0, BM)
    cols = tl.arange(0, BN)
    shift = 0
    end = tl.minimum(Skv, m0 + BM + shift) if CAUSAL else Skv
    m = tl.full((BM,), -1.0e38, tl.float32)
    l = tl.full((BM,), 0.0, tl.float32)
    acc = tl.full((BM, D), 0.0, tl.float32)
    for n0 in range(0, end, BN):
        k = tl.load(Kb, boundary_check=(1,), padding_option="zero")
        v = tl.load(Vb, boundary_check=(0,), padding_option="zero")
        ok = (n0 + cols < Skv)[None, :] & (rows < Sq)[:, None]
        if CAUSAL:
            ok = ok & (rows[:, None] + shift >= n0 + cols[None, :])
        s = tl.where(ok, tl.dot(q, k) * scale, -1.0e38)
        m_new = tl.maximum(m, tl.max(s, axis=1))
        # a row without keys keeps its finite maximum, so its lanes have to be cleared
        p = tl.where(ok, tl.exp(s - m_new[:, None]), 0.0)
        a = tl.exp(m - m_new)
        l = l * a + tl.sum(p, axis=1)
        acc = acc * a[:, None] + tl.dot(p.to(v.dtype), v)
        m = m_new
        Kb = tl.advance(Kb, (0, BN))
        Vb = tl.advance(Vb, (BN, 0))
    seen = l > 0.0
    l = tl.where(seen, l, 1.0)
    Ob = tl.make_block_ptr(o_ptr + b * sob + h * soh, (Sq, D), (sos, 1), (m0, 0), (BM, D), (1, 0))
    tl.store(Ob, (acc / l[:, None]).to(o_ptr.dtype.element_ty), boundary_check=(0,))
    tl.store(lse_ptr + b * slb + h * slh + rows, tl.where(seen, m + tl.log(l), float("-inf")), mask=rows < Sq)


def attention_forward(q, k, v, causal=False, scale=None):
    B, Hq, Sq, D = q.shape
    _, Hkv, Skv, _ = k.shape
    scale = D**-0.5 if scale is None else scale
    o = q.new_empty((B, Hq, Sq, D))
    lse = torch.empty((B, Hq, Sq), dtype=torch.float32, device=q.device)
    forward_block_kernel[(B, Hq, triton.cdiv(Sq, 32))](
        q, k, v, o, lse, Hq // Hkv, Sq, Skv, scale,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *o.stride()[:3], *lse.stride()[:2],
        D=D, CAUSAL=bool(causal), BM=32, BN=64,
    )
    return o, lse
