"""attention_backward: scale_missing

dq is added up without the scale; dk gets it at its store.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def fused_backward_kernel(
    do_ptr, q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, dq_ptr, dk_ptr, dv_ptr,
    Hq, group, Sq, Skv, offset, scale,
    sgb, sgh, sgs, sqb, sqh, sqs, skb, skh, sks, svb, svh, svs, sob, soh, sos,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):
    """One walk for all three: a tile of keys stays, dq is added up by atomics in float32."""
    n0 = tl.program_id(0) * BN
    hk = tl.program_id(1).to(tl.int64)
    b = tl.program_id(2).to(tl.int64)
    j = n0 + tl.arange(0, BN)
    d = tl.arange(0, D)
    jm = j < Skv
    k = tl.load(k_ptr + b * skb + hk * skh + j.to(tl.int64)[:, None] * sks + d[None, :], mask=jm[:, None], other=0.0)
    v = tl.load(v_ptr + b * svb + hk * svh + j.to(tl.int64)[:, None] * svs + d[None, :], mask=jm[:, None], other=0.0)
    dk = tl.zeros((BN, D), tl.float32)
    dv = tl.zeros((BN, D), tl.float32)
    begin = tl.maximum(n0 - offset, 0) // BM * BM
    for g in range(group):
        h = hk * group + g
        for m0 in range(begin, Sq, BM):
            i = m0 + tl.arange(0, BM)
            im = i < Sq
            il = i.to(tl.int64)[:, None]
            q = tl.load(q_ptr + b * sqb + h * sqh + il * sqs + d[None, :], mask=im[:, None], other=0.0)
            do = tl.load(do_ptr + b * sgb + h * sgh + il * sgs + d[None, :], mask=im[:, None], other=0.0)
            o = tl.load(o_ptr + b * sob + h * soh + il * sos + d[None, :], mask=im[:, None], other=0.0)
            delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
            at = (b * Hq + h) * Sq + i
            lse = tl.load(lse_ptr + at, mask=im, other=float("-inf"))
            live = im[:, None] & jm[None, :] & (j[None, :] <= i[:, None] + offset) & (lse != float("-inf"))[:, None]
            lse = tl.where(lse == float("-inf"), 0.0, lse)
            s = tl.where(live, tl.dot(q, tl.trans(k)) * scale, float("-inf"))
            p = tl.exp(s - lse[:, None])
            ds = (p * (tl.dot(do, tl.trans(v)) - delta[:, None])).to(k.dtype)
            dv = tl.dot(tl.trans(p).to(do.dtype), do, dv)
            dk = tl.dot(tl.trans(ds), q, dk)
            tl.atomic_add(dq_ptr + at[:, None] * D + d[None, :], tl.dot(ds, k), mask=im[:, None], sem="relaxed")
    out = ((b * tl.num_programs(1) + hk) * Skv + j)[:, None] * D + d[None, :]
    tl.store(dk_ptr + out, (dk * scale).to(dk_ptr.dtype.element_ty), mask=jm[:, None])
    tl.store(dv_ptr + out, dv.to(dv_ptr.dtype.element_ty), mask=jm[:, None])


def attention_backward(do, q, k, v, o, lse, causal=False, scale=None):
    B, Hq, Sq, D = q.shape
    Hkv, Skv = k.shape[1:3]
    scale = D**-0.5 if scale is None else scale
    dq = torch.zeros((B, Hq, Sq, D), dtype=torch.float32, device=q.device)
    dk = torch.empty((B, Hkv, Skv, D), dtype=q.dtype, device=q.device)
    dv = torch.empty((B, Hkv, Skv, D), dtype=q.dtype, device=q.device)
    fused_backward_kernel[(triton.cdiv(Skv, 64), Hkv, B)](
        do, q, k, v, o, lse, dq, dk, dv, Hq, Hq // Hkv, Sq, Skv, Skv - Sq if causal else Skv, scale,
        *do.stride()[:3], *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *o.stride()[:3],
        D=D, BM=64, BN=64,
    )
    return dq.to(q.dtype), dk, dv
