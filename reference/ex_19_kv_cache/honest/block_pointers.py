"""Keys and values through block pointers that end where the sequence does.

Needs triton < 3.9: block pointers.
"""

import torch
import triton
import triton.language as tl

ROWS, BLOCK_N = 16, 64
STRIDES = ["stride_qb", "stride_qh", *(f"stride_{tensor}{axis}" for tensor in "kv" for axis in "bhs")]


# One kernel for all shapes: specialised ones would be faster, and each would be compiled.
@triton.jit(do_not_specialize=["group", "scale", *STRIDES])
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
    # A sequence's slots, and none behind them.
    k_block = tl.make_block_ptr(k_ptr, (length, D), (stride_ks, 1), (0, 0), (BLOCK_N, D), (1, 0))
    v_block = tl.make_block_ptr(v_ptr, (length, D), (stride_vs, 1), (0, 0), (BLOCK_N, D), (1, 0))
    top = tl.full((ROWS,), float("-inf"), dtype=tl.float32)
    total = tl.full((ROWS,), 0.0, dtype=tl.float32)
    acc = tl.full((ROWS, D), 0.0, dtype=tl.float32)
    for start in range(0, length, BLOCK_N):
        slots = start + tl.arange(0, BLOCK_N)
        inside = slots < length
        k = tl.load(k_block, boundary_check=(0,), padding_option="zero")
        v = tl.load(v_block, boundary_check=(0,), padding_option="zero")
        s = tl.where(inside[None, :], tl.dot(q, tl.trans(k)) * scale, float("-inf"))
        new_top = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new_top[:, None])
        rescale = tl.exp(top - new_top)
        total = total * rescale + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * rescale[:, None])
        top = new_top
        k_block = tl.advance(k_block, (BLOCK_N, 0))
        v_block = tl.advance(v_block, (BLOCK_N, 0))
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
