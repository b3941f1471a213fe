"""decode_attention: padding_counted

Slots beyond the length are loaded as zeros but not hidden: each adds the weight of a logit of 0.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def decode_transposed_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, len_ptr, group, qk_scale,
    sqb, sqh, skb, skh, sks, svb, svh, svs, sob, soh,
    D: tl.constexpr, G: tl.constexpr, BLOCK: tl.constexpr,
):
    """Keys are the rows of the tile of logits: the long side feeds the M of the MMA."""
    b = tl.program_id(0).to(tl.int64)
    h = tl.program_id(1).to(tl.int64)
    n_slots = tl.load(len_ptr + b)
    d = tl.arange(0, D)
    g = tl.arange(0, G)
    gm = g < group
    q_t = tl.load(q_ptr + b * sqb + (h * group + g)[None, :] * sqh + d[:, None], mask=gm[None, :], other=0.0)
    m = tl.full((G,), float("-inf"), tl.float32)
    l = tl.zeros((G,), tl.float32)
    acc_t = tl.zeros((D, G), tl.float32)
    for start in tl.range(0, n_slots, BLOCK):
        j = (start + tl.arange(0, BLOCK)).to(tl.int64)
        ok = j[:, None] < n_slots
        k = tl.load(k_ptr + b * skb + h * skh + j[:, None] * sks + d[None, :], mask=ok, other=0.0)
        s = tl.dot(k, q_t) * qk_scale
        m_new = tl.maximum(m, tl.max(s, 0))
        p = tl.exp2(s - m_new[None, :])
        f = tl.exp2(m - m_new)
        v = tl.load(v_ptr + b * svb + h * svh + j[:, None] * svs + d[None, :], mask=ok, other=0.0)
        acc_t = acc_t * f[None, :] + tl.dot(tl.trans(v), p.to(v.dtype))
        l = l * f + tl.sum(p, 0)
        m = m_new
    l = tl.where(l == 0.0, 1.0, l)
    o_t = acc_t / l[None, :]
    tl.store(
        o_ptr + b * sob + (h * group + g)[None, :] * soh + d[:, None], o_t.to(o_ptr.dtype.element_ty), mask=gm[None, :]
    )


def decode_attention(q, k_cache, v_cache, lengths, scale=None):
    B, Hq, D = q.shape
    Hkv = k_cache.shape[1]
    scale = D**-0.5 if scale is None else scale
    o = torch.empty((B, Hq, D), dtype=q.dtype, device=q.device)
    decode_transposed_kernel[(B, Hkv)](
        q, k_cache, v_cache, o, lengths, Hq // Hkv, scale * 1.4426950408889634,
        *q.stride()[:2], *k_cache.stride()[:3], *v_cache.stride()[:3], *o.stride()[:2],
        D=D, G=16, BLOCK=64,
    )
    return o
