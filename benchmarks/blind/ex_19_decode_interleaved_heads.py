"""decode_attention: heads_mapping

The query heads of kv head h are taken to be h, h + Hkv, h + 2*Hkv, … instead of neighbours.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def decode_group_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, len_ptr, Hkv, group, scale,
    sqb, sqh, skb, skh, sks, svb, svh, svs, sob, soh,
    D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):
    """One program per sequence and kv head."""
    pid = tl.program_id(0)
    b = (pid // Hkv).to(tl.int64)
    kvh = (pid % Hkv).to(tl.int64)
    length = tl.load(len_ptr + b)
    r = tl.arange(0, ROWS)
    d = tl.arange(0, D)
    heads = kvh + r * Hkv
    rmask = r[:, None] < group
    q = tl.load(q_ptr + b * sqb + heads[:, None] * sqh + d[None, :], mask=rmask, other=0.0)
    m = tl.full([ROWS], float("-inf"), tl.float32)
    l = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, D], tl.float32)
    kbase = k_ptr + b * skb + kvh * skh
    vbase = v_ptr + b * svb + kvh * svh
    for start in range(0, length, BLOCK):
        n = (start + tl.arange(0, BLOCK)).to(tl.int64)
        nmask = n < length
        k = tl.load(kbase + n[None, :] * sks + d[:, None], mask=nmask[None, :], other=0.0)
        s = tl.dot(q, k) * scale
        s = tl.where(nmask[None, :], s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        alpha = tl.exp(m - m_new)
        p = tl.exp(s - m_new[:, None])
        v = tl.load(vbase + n[:, None] * svs + d[None, :], mask=nmask[:, None], other=0.0)
        l = l * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        m = m_new
    if length > 0:
        acc = acc / l[:, None]
    tl.store(o_ptr + b * sob + heads[:, None] * soh + d[None, :], acc.to(o_ptr.dtype.element_ty), mask=rmask)


def decode_attention(q, k_cache, v_cache, lengths, scale=None):
    B, Hq, D = q.shape
    Hkv = k_cache.shape[1]
    if scale is None:
        scale = D**-0.5
    o = torch.empty((B, Hq, D), dtype=q.dtype, device=q.device)
    decode_group_kernel[(B * Hkv,)](
        q, k_cache, v_cache, o, lengths, Hkv, Hq // Hkv, scale,
        q.stride(0), q.stride(1), *k_cache.stride()[:3], *v_cache.stride()[:3], o.stride(0), o.stride(1),
        D=D, ROWS=16, BLOCK=64,
    )
    return o
