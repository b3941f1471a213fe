"""attention_forward: position_shifted or causal_alignment

Rows of the packed tile are group * query + member, but the causal mask compares the packed row number r, not the
query i.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def packed_forward_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, Hkv, group, Sq, Skv, sm_scale,
    sqb, sqh, sqs, skb, skh, sks, svb, svh, svs,
    D: tl.constexpr, CAUSAL: tl.constexpr, ROWS: tl.constexpr, BN: tl.constexpr,
):
    """All query heads of a kv head in one tile: row r is query r // group of member r % group."""
    b = (tl.program_id(1) // Hkv).to(tl.int64)
    hk = (tl.program_id(1) % Hkv).to(tl.int64)
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = r < Sq * group
    i = r // group
    h = hk * group + r % group
    d = tl.arange(0, D)
    q = tl.load(
        q_ptr + b * sqb + h[:, None] * sqh + i.to(tl.int64)[:, None] * sqs + d[None, :], mask=inside[:, None], other=0.0
    )
    last = Skv
    if CAUSAL:
        last_query = tl.minimum(((tl.program_id(0) + 1) * ROWS - 1) // group, Sq - 1)
        last = tl.minimum(Skv, last_query + Skv - Sq + 1)
    m = tl.full((ROWS,), float("-inf"), tl.float32)
    l = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, D), tl.float32)
    for n in range(0, last, BN):
        j = n + tl.arange(0, BN)
        jm = j[:, None] < Skv
        k = tl.load(k_ptr + b * skb + hk * skh + j.to(tl.int64)[:, None] * sks + d[None, :], mask=jm, other=0.0)
        s = tl.dot(q, tl.trans(k)) * sm_scale
        hidden = j[None, :] >= Skv
        if CAUSAL:
            hidden = hidden | (j[None, :] > r[:, None] + Skv - Sq)
        s = tl.where(hidden, float("-inf"), s)
        top = tl.maximum(m, tl.max(s, 1))
        ref = tl.where(top > float("-inf"), top, 0.0)
        w = tl.exp(s - ref[:, None])
        decay = tl.exp(m - ref)
        v = tl.load(v_ptr + b * svb + hk * svh + j.to(tl.int64)[:, None] * svs + d[None, :], mask=jm, other=0.0)
        l = decay * l + tl.sum(w, 1)
        acc = decay[:, None] * acc + tl.dot(w.to(v.dtype), v)
        m = top
    some = l > 0
    o = acc / tl.where(some, l, 1.0)[:, None]
    out = ((b * Hkv * group + h) * Sq + i).to(tl.int64)
    tl.store(o_ptr + out[:, None] * D + d[None, :], o.to(o_ptr.dtype.element_ty), mask=inside[:, None])
    tl.store(lse_ptr + out, tl.where(some, m + tl.log(tl.where(some, l, 1.0)), float("-inf")), mask=inside)


def attention_forward(q, k, v, causal=False, scale=None):
    B, Hq, Sq, D = q.shape
    Hkv, Skv = k.shape[1:3]
    group = Hq // Hkv
    o = torch.empty((B, Hq, Sq, D), dtype=q.dtype, device=q.device)
    lse = torch.empty((B, Hq, Sq), dtype=torch.float32, device=q.device)
    packed_forward_kernel[(triton.cdiv(Sq * group, 64), B * Hkv)](
        q, k, v, o, lse, Hkv, group, Sq, Skv, D**-0.5 if scale is None else scale,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], D=D, CAUSAL=causal, ROWS=64, BN=64,
    )
    return o, lse
