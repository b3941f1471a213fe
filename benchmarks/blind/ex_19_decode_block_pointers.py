"""decode_attention: past_length

v's block pointer ends at Smax instead of at the sequence's length: NaN slots meet weights of 0.

Needs triton < 3.9: block pointers.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def decode_block_kernel(
    Q, K, V, O, L, group, Hkv, Smax, scale,
    sqb, sqh, skb, skh, sks, svb, svh, svs, sob, soh,
    D: tl.constexpr, G: tl.constexpr, BLOCK: tl.constexpr,
):
    pid = tl.program_id(0)
    b = (pid // Hkv).to(tl.int64)
    h = (pid % Hkv).to(tl.int64)
    n = tl.load(L + b)
    q_blk = tl.make_block_ptr(Q + b * sqb + h * group * sqh, (group, D), (sqh, 1), (0, 0), (G, D), (1, 0))
    k_blk = tl.make_block_ptr(K + b * skb + h * skh, (D, n), (1, sks), (0, 0), (D, BLOCK), (0, 1))
    v_blk = tl.make_block_ptr(V + b * svb + h * svh, (Smax, D), (svs, 1), (0, 0), (BLOCK, D), (1, 0))
    q = tl.load(q_blk, boundary_check=(0,), padding_option="zero")
    m_i = tl.full((G,), float("-inf"), tl.float32)
    l_i = tl.full((G,), 0.0, tl.float32)
    acc = tl.zeros((G, D), tl.float32)
    for start in range(0, n, BLOCK):
        k = tl.load(k_blk, boundary_check=(1,), padding_option="zero")
        v = tl.load(v_blk, boundary_check=(0,), padding_option="zero")
        qk = tl.dot(q, k) * scale
        qk = tl.where(start + tl.arange(0, BLOCK)[None, :] < n, qk, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.exp(qk - m_new[:, None])
        alpha = tl.exp(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        m_i = m_new
        k_blk = tl.advance(k_blk, (0, BLOCK))
        v_blk = tl.advance(v_blk, (BLOCK, 0))
    acc = acc / tl.maximum(l_i, 1e-30)[:, None]
    o_blk = tl.make_block_ptr(O + b * sob + h * group * soh, (group, D), (soh, 1), (0, 0), (G, D), (1, 0))
    tl.store(o_blk, acc.to(O.dtype.element_ty), boundary_check=(0,))


def decode_attention(q, k_cache, v_cache, lengths, scale=None):
    B, Hq, D = q.shape
    Hkv = k_cache.shape[1]
    out = torch.empty((B, Hq, D), dtype=q.dtype, device=q.device)
    decode_block_kernel[(B * Hkv,)](
        q, k_cache, v_cache, out, lengths, Hq // Hkv, Hkv, k_cache.shape[2], D**-0.5 if scale is None else scale,
        *q.stride()[:2], *k_cache.stride()[:3], *v_cache.stride()[:3], *out.stride()[:2],
        D=D, G=16, BLOCK=32,
    )
    return out
