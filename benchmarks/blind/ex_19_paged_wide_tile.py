"""paged_decode_attention: size_assumed or tile_over_pages

A tile of 64 slots reads one entry of the table, right for pages of 64 only; with pages of 16 a tile spans four.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def paged_gather_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, table_ptr, len_ptr, Hkv, group, qk_scale,
    sqb, sqh, skp, sks, skh, svp, svs, svh, stb, stn, sob, soh,
    D: tl.constexpr, PAGE: tl.constexpr, BLOCK: tl.constexpr,
):
    pid = tl.program_id(0)
    b = (pid // Hkv).to(tl.int64)
    h = (pid % Hkv).to(tl.int64)
    length = tl.load(len_ptr + b)
    rows = tl.arange(0, 16)
    d = tl.arange(0, D)
    hq = h * group + rows
    qmask = (rows < group)[:, None]
    q = tl.load(q_ptr + b * sqb + hq[:, None] * sqh + d[None, :], mask=qmask, other=0.0)
    m = tl.full((16,), float("-inf"), tl.float32)
    l = tl.zeros((16,), tl.float32)
    acc = tl.zeros((16, D), tl.float32)
    for start in range(0, length, BLOCK):
        slot = start + tl.arange(0, BLOCK)
        live = slot < length
        page = tl.load(table_ptr + b * stb + (start // BLOCK) * stn).to(tl.int64)
        inner = (slot % BLOCK).to(tl.int64)
        k_off = page * skp + inner * sks + h * skh
        v_off = page * svp + inner * svs + h * svh
        k = tl.load(k_ptr + k_off[:, None] + d[None, :], mask=live[:, None], other=0.0)
        s = tl.dot(q, tl.trans(k)) * qk_scale
        s = tl.where(live[None, :], s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m - m_new)
        l = l * alpha + tl.sum(p, 1)
        v = tl.load(v_ptr + v_off[:, None] + d[None, :], mask=live[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m = m_new
    acc /= tl.where(l > 0, l, 1.0)[:, None]
    tl.store(o_ptr + b * sob + hq[:, None] * soh + d[None, :], acc.to(o_ptr.dtype.element_ty), mask=qmask)


def paged_decode_attention(q, k_pages, v_pages, block_table, lengths, scale=None):
    B, Hq, D = q.shape
    page, Hkv = k_pages.shape[1], k_pages.shape[2]
    scale = D**-0.5 if scale is None else scale
    o = torch.empty((B, Hq, D), dtype=q.dtype, device=q.device)
    paged_gather_kernel[(B * Hkv,)](
        q, k_pages, v_pages, o, block_table, lengths, Hkv, Hq // Hkv, scale * 1.44269504,
        *q.stride()[:2], *k_pages.stride()[:3], *v_pages.stride()[:3], *block_table.stride(), *o.stride()[:2],
        D=D, PAGE=page, BLOCK=64,
    )
    return o
