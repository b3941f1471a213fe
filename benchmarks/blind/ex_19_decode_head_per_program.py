"""decode_attention: read_again

Every query head has a program of its own, so a kv head's slots are loaded once per query head of the group.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def decode_vec_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, len_ptr, group, scale,
    sqb, sqh, skb, skh, sks, svb, svh, svs, sob, soh,
    D: tl.constexpr, G: tl.constexpr, BLOCK: tl.constexpr,
):
    """One query head per program."""
    hq = tl.program_id(0).to(tl.int64)
    h = hq // group
    b = tl.program_id(1).to(tl.int64)
    seqlen = tl.load(len_ptr + b)
    d = tl.arange(0, D)
    g = tl.arange(0, G)
    gmask = (g < 1)[:, None]
    qp = q_ptr + b * sqb + (hq + g)[:, None] * sqh + d[None, :]
    q = tl.load(qp, mask=gmask, other=0.0).to(tl.float32) * scale
    run_max = tl.full((G,), float("-inf"), tl.float32)
    run_sum = tl.zeros((G,), tl.float32)
    acc = tl.zeros((G, D), tl.float32)
    j = tl.arange(0, BLOCK)
    k_ptrs = k_ptr + b * skb + h * skh + j.to(tl.int64)[:, None] * sks + d[None, :]
    v_ptrs = v_ptr + b * svb + h * svh + j.to(tl.int64)[:, None] * svs + d[None, :]
    for start in range(0, seqlen, BLOCK):
        live = start + j < seqlen
        k = tl.load(k_ptrs, mask=live[:, None], other=0.0).to(tl.float32)
        logits = tl.sum(q[:, None, :] * k[None, :, :], axis=2)
        logits = tl.where(live[None, :], logits, float("-inf"))
        top = tl.maximum(run_max, tl.max(logits, axis=1))
        decay = tl.exp(run_max - top)
        w = tl.exp(logits - top[:, None])
        v = tl.load(v_ptrs, mask=live[:, None], other=0.0).to(tl.float32)
        run_sum = run_sum * decay + tl.sum(w, axis=1)
        acc = acc * decay[:, None] + tl.sum(w[:, :, None] * v[None, :, :], axis=1)
        run_max = top
        k_ptrs += BLOCK * sks
        v_ptrs += BLOCK * svs
    safe = tl.where(run_sum > 0, run_sum, 1.0)
    op = o_ptr + b * sob + (hq + g)[:, None] * soh + d[None, :]
    tl.store(op, (acc / safe[:, None]).to(o_ptr.dtype.element_ty), mask=gmask)


def decode_attention(q, k_cache, v_cache, lengths, scale=None):
    B, Hq, D = q.shape
    Hkv = k_cache.shape[1]
    group = Hq // Hkv
    sm_scale = scale if scale is not None else 1.0 / D**0.5
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    decode_vec_kernel[(Hq, B)](
        q, k_cache, v_cache, o, lengths, group, sm_scale,
        *q.stride()[:2], *k_cache.stride()[:3], *v_cache.stride()[:3], *o.stride()[:2],
        D=D, G=1, BLOCK=16,
    )
    return o
