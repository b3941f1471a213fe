"""attention_forward: blind_rows

A row that has seen no key has m_new = -inf, and exp2(-inf + inf) is NaN.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def persistent_forward_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, B, Hq, group, Sq, Skv, offset, qk_scale,
    sqb, sqh, sqs, skb, skh, sks, svb, svh, svs,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):
    """Few programs; each takes every num_programs-th tile of queries."""
    per_head = tl.cdiv(Sq, BM)
    d = tl.arange(0, D)
    for work in range(tl.program_id(0), per_head * B * Hq, tl.num_programs(0)):
        head = work // per_head
        first = (work % per_head) * BM
        b = (head // Hq).to(tl.int64)
        h = (head % Hq).to(tl.int64)
        i = first + tl.arange(0, BM)
        im = i[:, None] < Sq
        q = tl.load(q_ptr + b * sqb + h * sqh + i.to(tl.int64)[:, None] * sqs + d[None, :], mask=im, other=0.0)
        m = tl.full((BM,), float("-inf"), tl.float32)
        l = tl.zeros((BM,), tl.float32)
        acc = tl.zeros((BM, D), tl.float32)
        for start in range(0, tl.minimum(Skv, first + BM + offset), BN):
            j = start + tl.arange(0, BN)
            jm = j[:, None] < Skv
            k = tl.load(
                k_ptr + b * skb + (h // group) * skh + j.to(tl.int64)[:, None] * sks + d[None, :], mask=jm, other=0.0
            )
            s = tl.dot(q, tl.trans(k)) * qk_scale
            s = tl.where((j[None, :] < Skv) & (j[None, :] <= i[:, None] + offset), s, float("-inf"))
            m_new = tl.maximum(m, tl.max(s, 1))
            p = tl.exp2(s - m_new[:, None])
            a = tl.exp2(m - m_new)
            l = l * a + tl.sum(p, 1)
            v = tl.load(
                v_ptr + b * svb + (h // group) * svh + j.to(tl.int64)[:, None] * svs + d[None, :], mask=jm, other=0.0
            )
            acc = acc * a[:, None] + tl.dot(p.to(v.dtype), v)
            m = m_new
        l = tl.where(l == 0.0, 1.0, l)
        out = head.to(tl.int64) * Sq + i
        tl.store(o_ptr + out[:, None] * D + d[None, :], (acc / l[:, None]).to(o_ptr.dtype.element_ty), mask=im)
        tl.store(lse_ptr + out, (m + tl.log2(l)) / 1.4426950408889634, mask=i < Sq)


def attention_forward(q, k, v, causal=False, scale=None):
    B, Hq, Sq, D = q.shape
    Hkv, Skv = k.shape[1:3]
    scale = D**-0.5 if scale is None else scale
    o = torch.empty((B, Hq, Sq, D), dtype=q.dtype, device=q.device)
    lse = torch.empty((B, Hq, Sq), dtype=torch.float32, device=q.device)
    tiles = triton.cdiv(Sq, 32) * B * Hq
    persistent_forward_kernel[(min(tiles, 8 if not q.is_cuda else 264),)](
        q, k, v, o, lse, B, Hq, Hq // Hkv, Sq, Skv, Skv - Sq if causal else Skv, scale * 1.4426950408889634,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], D=D, BM=32, BN=32,
    )
    return o, lse
