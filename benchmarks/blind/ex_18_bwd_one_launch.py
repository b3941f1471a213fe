"""attention_backward: causal_off_by_one

The programs that own queries compare strictly: dq lacks the key of the query's own position.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def row_numbers(o_ptr, do, lse_ptr, o_row, lse_row, i, d, Sq, sos):
    """delta, and an lse that makes the weights of rows without keys 0."""
    o = tl.load(o_ptr + o_row + i.to(tl.int64)[:, None] * sos + d[None, :], mask=i[:, None] < Sq, other=0.0)
    lse = tl.load(lse_ptr + lse_row + i, mask=i < Sq, other=float("inf"))
    lse = tl.where(lse == float("-inf"), float("inf"), lse)
    return tl.sum(o.to(tl.float32) * do.to(tl.float32), 1), lse


@triton.jit
def both_sides_kernel(
    do_ptr, q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, dq_ptr, dk_ptr, dv_ptr,
    key_programs, Hq, Hkv, Sq, Skv, offset, scale,
    sgb, sgh, sgs, sqb, sqh, sqs, skb, skh, sks, svb, svh, svs, sob, soh, sos,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):
    """The first programs own tiles of keys, the others tiles of queries: one launch."""
    pid = tl.program_id(0)
    d = tl.arange(0, D)
    group = Hq // Hkv
    if pid < key_programs:
        tiles = tl.cdiv(Skv, BN)
        n0 = pid % tiles * BN
        b = (pid // tiles // Hkv).to(tl.int64)
        hk = (pid // tiles % Hkv).to(tl.int64)
        j = n0 + tl.arange(0, BN)
        jl = j.to(tl.int64)[:, None]
        jm = j[:, None] < Skv
        k = tl.load(k_ptr + b * skb + hk * skh + jl * sks + d[None, :], mask=jm, other=0.0)
        v = tl.load(v_ptr + b * svb + hk * svh + jl * svs + d[None, :], mask=jm, other=0.0)
        dk = tl.zeros((BN, D), tl.float32)
        dv = tl.zeros((BN, D), tl.float32)
        first = tl.maximum(n0 - offset, 0) // BM
        steps = tl.maximum(tl.cdiv(Sq, BM) - first, 0)
        for step in range(steps * group):
            h = hk * group + step // steps
            i = (first + step % steps) * BM + tl.arange(0, BM)
            il = i.to(tl.int64)[:, None]
            im = i[:, None] < Sq
            q = tl.load(q_ptr + b * sqb + h * sqh + il * sqs + d[None, :], mask=im, other=0.0)
            do = tl.load(do_ptr + b * sgb + h * sgh + il * sgs + d[None, :], mask=im, other=0.0)
            delta, lse = row_numbers(o_ptr, do, lse_ptr, b * sob + h * soh, (b * Hq + h) * Sq, i, d, Sq, sos)
            p = tl.exp(tl.dot(q, tl.trans(k)) * scale - lse[:, None])
            p = tl.where(j[None, :] <= i[:, None] + offset, p, 0.0)
            ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
            dv += tl.dot(tl.trans(p.to(do.dtype)), do)
            dk += tl.dot(tl.trans(ds.to(q.dtype)), q)
        at = ((b * Hkv + hk) * Skv + jl) * D + d[None, :]
        tl.store(dk_ptr + at, (dk * scale).to(dk_ptr.dtype.element_ty), mask=jm)
        tl.store(dv_ptr + at, dv.to(dv_ptr.dtype.element_ty), mask=jm)
    else:
        tiles = tl.cdiv(Sq, BM)
        mine = pid - key_programs
        m0 = mine % tiles * BM
        b = (mine // tiles // Hq).to(tl.int64)
        h = (mine // tiles % Hq).to(tl.int64)
        hk = h // group
        i = m0 + tl.arange(0, BM)
        il = i.to(tl.int64)[:, None]
        im = i[:, None] < Sq
        q = tl.load(q_ptr + b * sqb + h * sqh + il * sqs + d[None, :], mask=im, other=0.0)
        do = tl.load(do_ptr + b * sgb + h * sgh + il * sgs + d[None, :], mask=im, other=0.0)
        delta, lse = row_numbers(o_ptr, do, lse_ptr, b * sob + h * soh, (b * Hq + h) * Sq, i, d, Sq, sos)
        dq = tl.zeros((BM, D), tl.float32)
        for n0 in range(0, tl.minimum(Skv, m0 + BM + offset), BN):
            j = n0 + tl.arange(0, BN)
            jl = j.to(tl.int64)[:, None]
            jm = j[:, None] < Skv
            k = tl.load(k_ptr + b * skb + hk * skh + jl * sks + d[None, :], mask=jm, other=0.0)
            v = tl.load(v_ptr + b * svb + hk * svh + jl * svs + d[None, :], mask=jm, other=0.0)
            p = tl.exp(tl.dot(q, tl.trans(k)) * scale - lse[:, None])
            p = tl.where((j[None, :] < Skv) & (j[None, :] < i[:, None] + offset), p, 0.0)
            ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
            dq += tl.dot(ds.to(k.dtype), k)
        at = ((b * Hq + h) * Sq + il) * D + d[None, :]
        tl.store(dq_ptr + at, (dq * scale).to(dq_ptr.dtype.element_ty), mask=im)


def attention_backward(do, q, k, v, o, lse, causal=False, scale=None):
    B, Hq, Sq, D = q.shape
    Hkv, Skv = k.shape[1:3]
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    BM, BN = 64, 64
    key_programs = triton.cdiv(Skv, BN) * B * Hkv
    query_programs = triton.cdiv(Sq, BM) * B * Hq
    both_sides_kernel[(key_programs + query_programs,)](
        do, q, k, v, o, lse, dq, dk, dv,
        key_programs, Hq, Hkv, Sq, Skv, Skv - Sq if causal else Skv, D**-0.5 if scale is None else scale,
        *(s for x in (do, q, k, v, o) for s in x.stride()[:3]), D=D, BM=BM, BN=BN,
    )
    return dq, dk, dv
