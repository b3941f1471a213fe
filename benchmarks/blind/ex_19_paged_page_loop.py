"""paged_decode_attention: empty_sequence

A sequence of length 0 has l = 0, and o = 0 / 0.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def paged_by_page_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, table_ptr, len_ptr, group, scale,
    sqb, sqh, skp, sks, skh, svp, svs, svh, stb, sob, soh,
    D: tl.constexpr, PAGE: tl.constexpr, ROWS: tl.constexpr,
):
    """A tile of keys is a page."""
    h = tl.program_id(0).to(tl.int64)
    b = tl.program_id(1).to(tl.int64)
    n = tl.load(len_ptr + b)
    r = tl.arange(0, ROWS)
    d = tl.arange(0, D)
    within = tl.arange(0, PAGE)
    rm = (r < group)[:, None]
    q = tl.load(q_ptr + b * sqb + (h * group + r)[:, None] * sqh + d[None, :], mask=rm, other=0.0)
    m = tl.full((ROWS,), float("-inf"), tl.float32)
    l = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, D), tl.float32)
    for i in range(tl.cdiv(n, PAGE)):
        page = tl.load(table_ptr + b * stb + i).to(tl.int64)
        used = i * PAGE + within < n
        k = tl.load(k_ptr + page * skp + h * skh + within[:, None] * sks + d[None, :], mask=used[:, None], other=0.0)
        v = tl.load(v_ptr + page * svp + h * svh + within[:, None] * svs + d[None, :], mask=used[:, None], other=0.0)
        s = tl.where(used[None, :], tl.dot(q, tl.trans(k)) * scale, float("-inf"))
        top = tl.maximum(m, tl.max(s, 1))
        w = tl.exp(s - top[:, None])
        a = tl.exp(m - top)
        l = l * a + tl.sum(w, 1)
        acc = acc * a[:, None] + tl.dot(w.to(v.dtype), v)
        m = top
    out = acc / l[:, None]
    tl.store(o_ptr + b * sob + (h * group + r)[:, None] * soh + d[None, :], out.to(o_ptr.dtype.element_ty), mask=rm)


def paged_decode_attention(q, k_pages, v_pages, block_table, lengths, scale=None):
    B, Hq, D = q.shape
    _, page, Hkv, _ = k_pages.shape
    if scale is None:
        scale = D**-0.5
    o = torch.empty((B, Hq, D), dtype=q.dtype, device=q.device)
    paged_by_page_kernel[(Hkv, B)](
        q, k_pages, v_pages, o, block_table, lengths, Hq // Hkv, scale,
        *q.stride()[:2], *k_pages.stride()[:3], *v_pages.stride()[:3], block_table.stride(0), *o.stride()[:2],
        D=D, PAGE=page, ROWS=16,
    )
    return o
