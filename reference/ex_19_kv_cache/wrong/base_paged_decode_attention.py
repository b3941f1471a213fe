"""A program for every kv head, which walks over the slots in use and looks each page up in the table."""

import torch
import triton
import triton.language as tl

ROWS, BLOCK_N = 16, 64
STRIDES = ["stride_qb", "stride_qh", "stride_tb", "stride_tn"]
STRIDES += [f"stride_{tensor}{axis}" for tensor in "kv" for axis in "psh"]


# One kernel for all shapes: specialised ones would be faster, and each would be compiled.
@triton.jit(do_not_specialize=["group", "page_size", "scale", *STRIDES])
def paged_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    table_ptr,
    lengths_ptr,
    o_ptr,
    group,
    page_size,
    scale,
    stride_qb,
    stride_qh,
    stride_kp,
    stride_ks,
    stride_kh,
    stride_vp,
    stride_vs,
    stride_vh,
    stride_tb,
    stride_tn,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    h, b = tl.program_id(0), tl.program_id(1).to(tl.int64)
    length = tl.load(lengths_ptr + b)
    members, dims = tl.arange(0, ROWS)[:, None], tl.arange(0, D)[None, :]
    head = h * group + members
    q = tl.load(q_ptr + b * stride_qb + head * stride_qh + dims, mask=members < group, other=0.0)
    k_ptr += h * stride_kh
    v_ptr += h * stride_vh
    top = tl.full((ROWS,), float("-inf"), dtype=tl.float32)
    total = tl.full((ROWS,), 0.0, dtype=tl.float32)
    acc = tl.full((ROWS, D), 0.0, dtype=tl.float32)
    for start in range(0, length, BLOCK_N):
        slots = start + tl.arange(0, BLOCK_N)
        inside = slots < length
        page = tl.load(table_ptr + b * stride_tb + slots // page_size * stride_tn, mask=inside, other=0).to(tl.int64)
        within = slots % page_size
        k = tl.load(k_ptr + (page * stride_kp + within * stride_ks)[:, None] + dims, mask=inside[:, None], other=0.0)
        v = tl.load(v_ptr + (page * stride_vp + within * stride_vs)[:, None] + dims, mask=inside[:, None], other=0.0)
        s = tl.where(inside[None, :], tl.dot(q, tl.trans(k)) * scale, float("-inf"))
        new_top = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new_top[:, None])
        rescale = tl.exp(top - new_top)
        total = total * rescale + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * rescale[:, None])
        top = new_top
    o = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    place = b * tl.num_programs(0) * group + head
    tl.store(o_ptr + place * D + dims, o.to(o_ptr.dtype.element_ty), mask=members < group)


def paged_decode_attention(q, k_pages, v_pages, block_table, lengths, scale=None):
    (batch, queries, width), (_, page_size, heads, _) = q.shape, k_pages.shape
    scale = width**-0.5 if scale is None else scale
    o = torch.empty((batch, queries, width), dtype=q.dtype, device=q.device)
    paged_kernel[(heads, batch)](
        *(q, k_pages, v_pages, block_table, lengths, o, queries // heads, page_size, scale),
        *(*q.stride()[:2], *k_pages.stride()[:3], *v_pages.stride()[:3], *block_table.stride()),
        D=width,
        ROWS=ROWS,
        BLOCK_N=BLOCK_N,
    )
    return o
