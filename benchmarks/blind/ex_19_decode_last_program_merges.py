"""decode_attention: not_cleared

The ticket counters are kept from call to call and never reset, so in a later call no program is the last.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def decode_ticket_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, len_ptr, part_ptr, lse_ptr, count_ptr, Hkv, group, scale, chunk,
    sqb, sqh, skb, skh, sks, svb, svh, svs,
    D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):
    """Split-K in one launch: who finishes last joins the partial results."""
    split = tl.program_id(0)
    splits = tl.num_programs(0)
    pair = tl.program_id(1)
    b = (pair // Hkv).to(tl.int64)
    h = (pair % Hkv).to(tl.int64)
    length = tl.load(len_ptr + b)
    lo = split * chunk
    hi = tl.minimum(lo + chunk, length)
    r = tl.arange(0, ROWS)
    d = tl.arange(0, D)
    rm = r < group
    q = tl.load(q_ptr + b * sqb + (h * group + r)[:, None] * sqh + d[None, :], mask=rm[:, None], other=0.0)
    m = tl.full((ROWS,), float("-inf"), tl.float32)
    l = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, D), tl.float32)
    for start in range(lo, hi, BLOCK):
        j = (start + tl.arange(0, BLOCK)).to(tl.int64)
        inside = j < hi
        k = tl.load(k_ptr + b * skb + h * skh + j[:, None] * sks + d[None, :], mask=inside[:, None], other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        s = tl.where(inside[None, :], s, float("-inf"))
        new = tl.maximum(m, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        a = tl.exp(m - new)
        v = tl.load(v_ptr + b * svb + h * svh + j[:, None] * svs + d[None, :], mask=inside[:, None], other=0.0)
        acc = acc * a[:, None] + tl.dot(p.to(v.dtype), v)
        l = l * a + tl.sum(p, 1)
        m = new
    some = lo < hi
    lse = tl.where(some, m + tl.log(tl.where(some, l, 1.0)), float("-inf"))
    o = acc / tl.where(some, l, 1.0)[:, None]
    base = (pair * splits + split).to(tl.int64) * ROWS
    tl.store(part_ptr + (base + r)[:, None] * D + d[None, :], o, mask=rm[:, None] & some)
    tl.store(lse_ptr + base + r, lse, mask=rm)
    tl.debug_barrier()
    ticket = tl.atomic_add(count_ptr + pair, 1, sem="acq_rel")
    if ticket == splits - 1:
        top = tl.full((ROWS,), float("-inf"), tl.float32)
        den = tl.zeros((ROWS,), tl.float32)
        out = tl.zeros((ROWS, D), tl.float32)
        for i in range(splits):
            at = (pair * splits + i).to(tl.int64) * ROWS + r
            e = tl.load(lse_ptr + at, mask=rm, other=float("-inf"))
            x = tl.load(part_ptr + at[:, None] * D + d[None, :], mask=(e > float("-inf"))[:, None], other=0.0)
            nt = tl.maximum(top, e)
            ref = tl.where(nt == float("-inf"), 0.0, nt)
            w_old = tl.exp(top - ref)
            w = tl.exp(e - ref)
            out = out * w_old[:, None] + w[:, None] * x
            den = den * w_old + w
            top = nt
        out = out / tl.where(den == 0.0, 1.0, den)[:, None]
        to = o_ptr + (b * Hkv * group + h * group + r)[:, None] * D + d[None, :]
        tl.store(to, out.to(o_ptr.dtype.element_ty), mask=rm[:, None])
COUNTERS = {}


def decode_attention(q, k_cache, v_cache, lengths, scale=None):
    B, Hq, D = q.shape
    Hkv, Smax = k_cache.shape[1:3]
    group = Hq // Hkv
    scale = D**-0.5 if scale is None else scale
    chunk = 128
    splits = triton.cdiv(Smax, chunk)
    o = torch.empty((B, Hq, D), dtype=q.dtype, device=q.device)
    part = torch.empty((B * Hkv, splits, 16, D), dtype=torch.float32, device=q.device)
    lse = torch.empty((B * Hkv, splits, 16), dtype=torch.float32, device=q.device)
    key = (q.device, B * Hkv)
    if key not in COUNTERS:
        COUNTERS[key] = torch.zeros((B * Hkv,), dtype=torch.int32, device=q.device)
    count = COUNTERS[key]
    decode_ticket_kernel[(splits, B * Hkv)](
        q, k_cache, v_cache, o, lengths, part, lse, count, Hkv, group, scale, chunk,
        *q.stride()[:2], *k_cache.stride()[:3], *v_cache.stride()[:3],
        D=D, ROWS=16, BLOCK=64,
    )
    return o
