"""Four splits of the cache, each with a program for every kv head; a second kernel weighs what they found."""

import torch
import triton
import triton.language as tl

ROWS, BLOCK_N, SPLITS = 16, 64, 4
STRIDES = ["stride_qb", "stride_qh", *(f"stride_{tensor}{axis}" for tensor in "kv" for axis in "bhs")]


# One kernel for all shapes: specialised ones would be faster, and each would be compiled.
@triton.jit(do_not_specialize=["group", "chunk", "scale", *STRIDES])
def decode_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    lengths_ptr,
    partial_ptr,
    lse_ptr,
    group,
    chunk,
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
    split, h, b = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    last = tl.minimum((split + 1) * chunk, tl.load(lengths_ptr + b))
    members, dims = tl.arange(0, ROWS)[:, None], tl.arange(0, D)[None, :]
    head = h * group + members
    q = tl.load(q_ptr + b * stride_qb + head * stride_qh + dims, mask=members < group, other=0.0)
    k_ptr += b * stride_kb + h * stride_kh
    v_ptr += b * stride_vb + h * stride_vh
    top = tl.full((ROWS,), float("-inf"), dtype=tl.float32)
    total = tl.full((ROWS,), 0.0, dtype=tl.float32)
    acc = tl.full((ROWS, D), 0.0, dtype=tl.float32)
    for start in range(split * chunk, last, BLOCK_N):
        slots = start + tl.arange(0, BLOCK_N)
        inside = slots < last
        k = tl.load(k_ptr + slots[:, None] * stride_ks + dims, mask=inside[:, None], other=0.0)
        v = tl.load(v_ptr + slots[:, None] * stride_vs + dims, mask=inside[:, None], other=0.0)
        s = tl.where(inside[None, :], tl.dot(q, tl.trans(k)) * scale, float("-inf"))
        new_top = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new_top[:, None])
        rescale = tl.exp(top - new_top)
        total = total * rescale + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * rescale[:, None])
        top = new_top
    place = ((b * tl.num_programs(1) * group + head) * tl.num_programs(0)) + split
    o = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    lse = top + tl.log(total)
    tl.store(partial_ptr + place * D + dims, o, mask=members < group)
    tl.store(lse_ptr + place, lse[:, None], mask=members < group)


@triton.jit
def merge_kernel(partial_ptr, lse_ptr, o_ptr, D: tl.constexpr, SPLITS: tl.constexpr):
    place, dims = tl.program_id(0) * SPLITS + tl.arange(0, SPLITS), tl.arange(0, D)
    lse = tl.load(lse_ptr + place)
    partial = tl.load(partial_ptr + place[:, None] * D + dims[None, :])
    top = tl.max(lse, 0)
    weights = tl.exp(lse - tl.where(top == float("-inf"), 0.0, top))
    total = tl.sum(weights, 0)
    o = tl.sum(weights[:, None] * partial, 0) / tl.where(total == 0.0, 1.0, total)
    tl.store(o_ptr + tl.program_id(0) * D + dims, o.to(o_ptr.dtype.element_ty))


def decode_attention(q, k_cache, v_cache, lengths, scale=None):
    (batch, queries, width), (_, heads, slots, _) = q.shape, k_cache.shape
    scale = width**-0.5 if scale is None else scale
    partial = torch.empty((batch, queries, SPLITS, width), dtype=torch.float32, device=q.device)
    lse = torch.empty((batch, queries, SPLITS), dtype=torch.float32, device=q.device)
    o = torch.empty((batch, queries, width), dtype=q.dtype, device=q.device)
    decode_kernel[(SPLITS, heads, batch)](
        *(q, k_cache, v_cache, lengths, partial, lse, queries // heads, triton.cdiv(slots, SPLITS), scale),
        *(*q.stride()[:2], *k_cache.stride()[:3], *v_cache.stride()[:3]),
        D=width,
        ROWS=ROWS,
        BLOCK_N=BLOCK_N,
    )
    merge_kernel[(batch * queries,)](partial, lse, o, D=width, SPLITS=SPLITS)
    return o
