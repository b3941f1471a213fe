"""paged_decode_attention: not_cleared or not_restarted

m, l and acc are set before the loop over tasks, so a program's second pair starts with the first one's sums.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def paged_persistent_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, table_ptr, len_ptr, tasks, Hkv, group, scale,
    sqb, sqh, skp, sks, skh, svp, svs, svh, stb, stn, sob, soh,
    D: tl.constexpr, PAGE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):
    """A few programs share all pairs of a sequence and a kv head."""
    r = tl.arange(0, ROWS)
    d = tl.arange(0, D)
    rm = (r < group)[:, None]
    m = tl.full((ROWS,), float("-inf"), tl.float32)
    l = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, D), tl.float32)
    for task in range(tl.program_id(0), tasks, tl.num_programs(0)):
        b = (task // Hkv).to(tl.int64)
        h = (task % Hkv).to(tl.int64)
        length = tl.load(len_ptr + b)
        q = tl.load(q_ptr + b * sqb + (h * group + r)[:, None] * sqh + d[None, :], mask=rm, other=0.0)
        for start in range(0, length, BLOCK):
            slots = start + tl.arange(0, BLOCK)
            ok = slots < length
            page = tl.load(table_ptr + b * stb + slots // PAGE * stn, mask=ok, other=0).to(tl.int64)
            at = slots % PAGE
            k = tl.load(k_ptr + (page * skp + at * sks + h * skh)[:, None] + d[None, :], mask=ok[:, None], other=0.0)
            v = tl.load(v_ptr + (page * svp + at * svs + h * svh)[:, None] + d[None, :], mask=ok[:, None], other=0.0)
            s = tl.dot(q, tl.trans(k)) * scale
            s = tl.where(ok[None, :], s, float("-inf"))
            m_next = tl.maximum(m, tl.max(s, 1))
            p = tl.exp(s - m_next[:, None])
            fix = tl.exp(m - m_next)
            acc = acc * fix[:, None] + tl.dot(p.to(v.dtype), v)
            l = l * fix + tl.sum(p, 1)
            m = m_next
        out = acc / tl.where(l == 0.0, 1.0, l)[:, None]
        o_ptrs = o_ptr + b * sob + (h * group + r)[:, None] * soh + d[None, :]
        tl.store(o_ptrs, out.to(o_ptr.dtype.element_ty), mask=rm)


def paged_decode_attention(q, k_pages, v_pages, block_table, lengths, scale=None):
    B, Hq, D = q.shape
    page, Hkv = k_pages.shape[1:3]
    scale = D**-0.5 if scale is None else scale
    programs = 4 if q.device.type == "cpu" else torch.cuda.get_device_properties(q.device).multi_processor_count
    o = torch.empty((B, Hq, D), dtype=q.dtype, device=q.device)
    paged_persistent_kernel[(min(programs, B * Hkv),)](
        q, k_pages, v_pages, o, block_table, lengths, B * Hkv, Hkv, Hq // Hkv, scale,
        *q.stride()[:2], *k_pages.stride()[:3], *v_pages.stride()[:3], *block_table.stride(), *o.stride()[:2],
        D=D, PAGE=page, ROWS=16, BLOCK=32,
    )
    return o
