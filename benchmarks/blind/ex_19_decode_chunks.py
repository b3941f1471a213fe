"""decode_attention: length_of_first

Stage 1 loads lengths[0] for every sequence.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def flash_decode_stage1(
    q_ptr, k_ptr, v_ptr, len_ptr, acc_ptr, m_ptr, l_ptr, Hkv, group, scale, chunk,
    sqb, sqh, skb, skh, sks, svb, svh, svs,
    D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):
    """Unnormalised sums of one chunk of the sequence."""
    split = tl.program_id(0)
    h = tl.program_id(1).to(tl.int64)
    b = tl.program_id(2).to(tl.int64)
    length = tl.load(len_ptr)
    lo = split * chunk
    hi = tl.minimum(lo + chunk, length)
    rows = tl.arange(0, ROWS)
    d = tl.arange(0, D)
    hq = h * group + rows
    keep = rows < group
    q = tl.load(q_ptr + b * sqb + hq[:, None] * sqh + d[None, :], mask=keep[:, None], other=0.0)
    m_i = tl.full((ROWS,), float("-inf"), tl.float32)
    l_i = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, D), tl.float32)
    for start in range(lo, hi, BLOCK):
        j = (start + tl.arange(0, BLOCK)).to(tl.int64)
        jm = j < hi
        k = tl.load(k_ptr + b * skb + h * skh + j[:, None] * sks + d[None, :], mask=jm[:, None], other=0.0)
        v = tl.load(v_ptr + b * svb + h * svh + j[:, None] * svs + d[None, :], mask=jm[:, None], other=0.0)
        s = tl.where(jm[None, :], tl.dot(q, tl.trans(k)) * scale, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        p = tl.exp(s - m_new[:, None])
        corr = tl.exp(m_i - m_new)
        l_i = l_i * corr + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * corr[:, None])
        m_i = m_new
    splits = tl.num_programs(0)
    at = (b * Hkv * group + hq) * splits + split
    tl.store(m_ptr + at, m_i, mask=keep)
    tl.store(l_ptr + at, l_i, mask=keep)
    tl.store(acc_ptr + at[:, None] * D + d[None, :], acc, mask=keep[:, None] & (lo < hi))


@triton.jit
def flash_decode_stage2(acc_ptr, m_ptr, l_ptr, o_ptr, splits, D: tl.constexpr, SPLITS: tl.constexpr):
    """One query head: weigh the chunks."""
    head = tl.program_id(0).to(tl.int64)
    s = tl.arange(0, SPLITS)
    d = tl.arange(0, D)
    real = s < splits
    m = tl.load(m_ptr + head * splits + s, mask=real, other=float("-inf"))
    l = tl.load(l_ptr + head * splits + s, mask=real, other=0.0)
    top = tl.max(m, 0)
    w = tl.where(m == float("-inf"), 0.0, tl.exp(m - top))
    # chunks without slots stored no sums
    some = (m > float("-inf"))[:, None]
    part = tl.load(acc_ptr + (head * splits + s)[:, None] * D + d[None, :], mask=some, other=0.0)
    num = tl.sum(w[:, None] * part, 0)
    den = tl.sum(w * l, 0)
    out = tl.where(den > 0, num / tl.where(den > 0, den, 1.0), 0.0)
    tl.store(o_ptr + head * D + d, out.to(o_ptr.dtype.element_ty))


def decode_attention(q, k_cache, v_cache, lengths, scale=None):
    B, Hq, D = q.shape
    Hkv, Smax = k_cache.shape[1], k_cache.shape[2]
    group = Hq // Hkv
    scale = D**-0.5 if scale is None else scale
    chunk = triton.cdiv(triton.cdiv(Smax, 16), 64) * 64
    splits = triton.cdiv(Smax, chunk)
    dev = q.device
    o = torch.empty((B, Hq, D), dtype=q.dtype, device=dev)
    acc = torch.empty((B, Hq, splits, D), dtype=torch.float32, device=dev)
    m = torch.empty((B, Hq, splits), dtype=torch.float32, device=dev)
    l = torch.empty((B, Hq, splits), dtype=torch.float32, device=dev)
    flash_decode_stage1[(splits, Hkv, B)](
        q, k_cache, v_cache, lengths, acc, m, l, Hkv, group, scale, chunk,
        *q.stride()[:2], *k_cache.stride()[:3], *v_cache.stride()[:3],
        D=D, ROWS=16, BLOCK=32,
    )
    flash_decode_stage2[(B * Hq,)](acc, m, l, o, splits, D=D, SPLITS=triton.next_power_of_2(splits))
    return o
