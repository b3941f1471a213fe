"""paged_decode_attention: strides_ignored

A row of the table is taken to be as long as the table is wide; a window of a larger table has another stride.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def paged_cube_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, table_ptr, len_ptr, group, scale,
    sqb, sqh, skp, sks, skh, svp, svs, svh, table_row, sob, soh,
    D: tl.constexpr, PAGE: tl.constexpr, NP: tl.constexpr,
):
    """NP pages at a time: a [NP, PAGE, D] cube, reshaped to a tile of NP * PAGE keys."""
    b = tl.program_id(0).to(tl.int64)
    h = tl.program_id(1).to(tl.int64)
    TILE: tl.constexpr = NP * PAGE
    length = tl.load(len_ptr + b)
    r = tl.arange(0, 16)
    d = tl.arange(0, D)
    rm = (r < group)[:, None]
    q = tl.load(q_ptr + b * sqb + (h * group + r)[:, None] * sqh + d[None, :], mask=rm, other=0.0)
    m = tl.full((16,), float("-inf"), tl.float32)
    l = tl.zeros((16,), tl.float32)
    acc = tl.zeros((16, D), tl.float32)
    pages_used = tl.cdiv(length, PAGE)
    inner = tl.arange(0, PAGE)
    for first in range(0, pages_used, NP):
        i = first + tl.arange(0, NP)
        page = tl.load(table_ptr + b * table_row + i, mask=i < pages_used, other=0).to(tl.int64)
        live = i[:, None] * PAGE + inner[None, :] < length
        k_at = page[:, None, None] * skp + inner[None, :, None] * sks + h * skh + d[None, None, :]
        v_at = page[:, None, None] * svp + inner[None, :, None] * svs + h * svh + d[None, None, :]
        k = tl.reshape(tl.load(k_ptr + k_at, mask=live[:, :, None], other=0.0), (TILE, D))
        v = tl.reshape(tl.load(v_ptr + v_at, mask=live[:, :, None], other=0.0), (TILE, D))
        s = tl.dot(q, tl.trans(k)) * scale
        s = tl.where(tl.reshape(live, (1, TILE)), s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        p = tl.exp(s - m_new[:, None])
        alpha = tl.exp(m - m_new)
        l = l * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        m = m_new
    out = tl.where(l[:, None] > 0, acc / tl.where(l > 0, l, 1.0)[:, None], 0.0)
    tl.store(o_ptr + b * sob + (h * group + r)[:, None] * soh + d[None, :], out.to(o_ptr.dtype.element_ty), mask=rm)


def paged_decode_attention(q, k_pages, v_pages, block_table, lengths, scale=None):
    B, Hq, D = q.shape
    page, Hkv = k_pages.shape[1:3]
    scale = D**-0.5 if scale is None else scale
    o = torch.empty((B, Hq, D), dtype=q.dtype, device=q.device)
    paged_cube_kernel[(B, Hkv)](
        q, k_pages, v_pages, o, block_table, lengths, Hq // Hkv, scale,
        *q.stride()[:2], *k_pages.stride()[:3], *v_pages.stride()[:3], block_table.shape[1], *o.stride()[:2],
        D=D, PAGE=page, NP=64 // page,
    )
    return o
