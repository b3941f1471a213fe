"""No splits: one program per sequence and kv head walks over all of its slots, with natural exponentials."""

import torch
import triton
import triton.language as tl

ROWS = 16
STRIDES = [f"stride_{tensor}{axis}" for tensor in ("kn", "vn", "k", "v") for axis in "bhs"]


# One kernel for all shapes: specialised ones would be faster, and each would be compiled.
@triton.jit(do_not_specialize=["T", "rows", *STRIDES])
def append_kernel(
    k_new_ptr,
    v_new_ptr,
    k_ptr,
    v_ptr,
    lengths_ptr,
    T,
    rows,
    stride_knb,
    stride_knh,
    stride_kns,
    stride_vnb,
    stride_vnh,
    stride_vns,
    stride_kb,
    stride_kh,
    stride_ks,
    stride_vb,
    stride_vh,
    stride_vs,
    D: tl.constexpr,
    ROWS: tl.constexpr,
):
    b = tl.program_id(1).to(tl.int64)
    row, dims = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None], tl.arange(0, D)[None, :]
    mask = row < rows
    h, t = (row // T).to(tl.int64), (row % T).to(tl.int64)
    slot = tl.load(lengths_ptr + b) + t
    k = tl.load(k_new_ptr + b * stride_knb + h * stride_knh + t * stride_kns + dims, mask=mask)
    v = tl.load(v_new_ptr + b * stride_vnb + h * stride_vnh + t * stride_vns + dims, mask=mask)
    tl.store(k_ptr + b * stride_kb + h * stride_kh + slot * stride_ks + dims, k, mask=mask)
    tl.store(v_ptr + b * stride_vb + h * stride_vh + slot * stride_vs + dims, v, mask=mask)


def append_kv(k_cache, v_cache, k_new, v_new, lengths):
    batch, heads, tokens, width = k_new.shape
    rows = heads * tokens
    append_kernel[(triton.cdiv(rows, ROWS), batch)](
        *(k_new, v_new, k_cache, v_cache, lengths, tokens, rows),
        *(*k_new.stride()[:3], *v_new.stride()[:3], *k_cache.stride()[:3], *v_cache.stride()[:3]),
        D=width,
        ROWS=ROWS,
    )


BLOCK_N = 64
DECODE_STRIDES = ["stride_qb", "stride_qh", *(f"stride_{tensor}{axis}" for tensor in "kv" for axis in "bhs")]


# One kernel for all shapes: specialised ones would be faster, and each would be compiled.
@triton.jit(do_not_specialize=["group", "scale", *DECODE_STRIDES])
def decode_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    lengths_ptr,
    o_ptr,
    group,
    scale,
    stride_qb,
    stride_qh,
    stride_kb,
    stride_kh,
    stride_ks,
    stride_vb,
    stride_vh,
    stride_vs,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    h, b = tl.program_id(0), tl.program_id(1).to(tl.int64)
    length = tl.load(lengths_ptr + b)
    members, dims = tl.arange(0, ROWS)[:, None], tl.arange(0, D)[None, :]
    head = h * group + members
    q = tl.load(q_ptr + b * stride_qb + head * stride_qh + dims, mask=members < group, other=0.0)
    k_ptr += b * stride_kb + h * stride_kh
    v_ptr += b * stride_vb + h * stride_vh
    top = tl.full((ROWS,), float("-inf"), dtype=tl.float32)
    total = tl.full((ROWS,), 0.0, dtype=tl.float32)
    acc = tl.full((ROWS, D), 0.0, dtype=tl.float32)
    for start in range(0, length, BLOCK_N):
        slots = start + tl.arange(0, BLOCK_N)
        inside = slots < length
        k = tl.load(k_ptr + slots[:, None] * stride_ks + dims, mask=inside[:, None], other=0.0)
        v = tl.load(v_ptr + slots[:, None] * stride_vs + dims, mask=inside[:, None], other=0.0)
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


def decode_attention(q, k_cache, v_cache, lengths, scale=None):
    (batch, queries, width), heads = q.shape, k_cache.shape[1]
    scale = width**-0.5 if scale is None else scale
    o = torch.empty((batch, queries, width), dtype=q.dtype, device=q.device)
    decode_kernel[(heads, batch)](
        *(q, k_cache, v_cache, lengths, o, queries // heads, scale),
        *(*q.stride()[:2], *k_cache.stride()[:3], *v_cache.stride()[:3]),
        D=width,
        ROWS=ROWS,
        BLOCK_N=BLOCK_N,
    )
    return o


PAGED_STRIDES = ["stride_qb", "stride_qh", "stride_tb", "stride_tn"]
PAGED_STRIDES += [f"stride_{tensor}{axis}" for tensor in "kv" for axis in "psh"]


# One kernel for all shapes: specialised ones would be faster, and each would be compiled.
@triton.jit(do_not_specialize=["group", "page_size", "scale", *PAGED_STRIDES])
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
