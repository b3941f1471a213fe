"""paged_decode_attention: logarithm_base

The splits' lse is a base-2 logarithm, but the join takes exp of it.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def paged_split_kernel(
    q_ptr, k_ptr, v_ptr, table_ptr, len_ptr, part_ptr, lse_ptr, Hkv, group, qk_scale, pages_per_split,
    sqb, sqh, skp, sks, skh, svp, svs, svh, stb, stn,
    D: tl.constexpr, PAGE: tl.constexpr,
):
    """Some pages of a sequence; o of these alone, and the base-2 logarithm of their sum of weights."""
    split = tl.program_id(0)
    splits = tl.num_programs(0)
    h = tl.program_id(1).to(tl.int64)
    b = tl.program_id(2).to(tl.int64)
    n = tl.load(len_ptr + b)
    r = tl.arange(0, 16)
    d = tl.arange(0, D)
    j = tl.arange(0, PAGE)
    rm = r < group
    q = tl.load(q_ptr + b * sqb + (h * group + r)[:, None] * sqh + d[None, :], mask=rm[:, None], other=0.0)
    m = tl.full((16,), float("-inf"), tl.float32)
    l = tl.zeros((16,), tl.float32)
    acc = tl.zeros((16, D), tl.float32)
    first = split * pages_per_split
    last = tl.minimum(first + pages_per_split, tl.cdiv(n, PAGE))
    for i in range(first, last):
        page = tl.load(table_ptr + b * stb + i * stn).to(tl.int64)
        jm = (i * PAGE + j < n)[:, None]
        k = tl.load(k_ptr + page * skp + h * skh + j[:, None] * sks + d[None, :], mask=jm, other=0.0)
        v = tl.load(v_ptr + page * svp + h * svh + j[:, None] * svs + d[None, :], mask=jm, other=0.0)
        s = tl.dot(q, tl.trans(k)) * qk_scale
        s = tl.where(i * PAGE + j[None, :] < n, s, float("-inf"))
        mn = tl.maximum(m, tl.max(s, 1))
        p = tl.exp2(s - mn[:, None])
        c = tl.exp2(m - mn)
        l = l * c + tl.sum(p, 1)
        acc = acc * c[:, None] + tl.dot(p.to(v.dtype), v)
        m = mn
    empty = first >= last
    l = tl.where(empty, 1.0, l)
    at = (b * Hkv * group + h * group + r) * splits + split
    tl.store(part_ptr + at[:, None] * D + d[None, :], acc / l[:, None], mask=rm[:, None] & (first < last))
    tl.store(lse_ptr + at, m + tl.log2(l), mask=rm)


@triton.jit
def paged_join_kernel(part_ptr, lse_ptr, o_ptr, splits, D: tl.constexpr):
    head = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, D)
    best = tl.full((), float("-inf"), tl.float32)
    for i in range(splits):
        best = tl.maximum(best, tl.load(lse_ptr + head * splits + i))
    acc = tl.zeros((D,), tl.float32)
    total = 0.0
    if best > float("-inf"):
        for i in range(splits):
            lse = tl.load(lse_ptr + head * splits + i)
            # an empty split has stored nothing
            if lse > float("-inf"):
                w = tl.exp(lse - best)
                total += w
                acc += w * tl.load(part_ptr + (head * splits + i) * D + d)
        acc = acc / total
    tl.store(o_ptr + head * D + d, acc.to(o_ptr.dtype.element_ty))


def paged_decode_attention(q, k_pages, v_pages, block_table, lengths, scale=None):
    B, Hq, D = q.shape
    page, Hkv = k_pages.shape[1:3]
    blocks = block_table.shape[1]
    per = 128 // page
    splits = triton.cdiv(blocks, per)
    scale = D**-0.5 if scale is None else scale
    o = torch.empty((B, Hq, D), dtype=q.dtype, device=q.device)
    part = torch.empty((B, Hq, splits, D), dtype=torch.float32, device=q.device)
    lse = torch.empty((B, Hq, splits), dtype=torch.float32, device=q.device)
    paged_split_kernel[(splits, Hkv, B)](
        q, k_pages, v_pages, block_table, lengths, part, lse, Hkv, Hq // Hkv, scale * 1.4426950408889634, per,
        *q.stride()[:2], *k_pages.stride()[:3], *v_pages.stride()[:3], *block_table.stride(),
        D=D, PAGE=page,
    )
    paged_join_kernel[(B * Hq,)](part, lse, o, splits, D=D)
    return o
