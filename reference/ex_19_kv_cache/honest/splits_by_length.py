"""Four, eight or sixteen splits, by the number of slots in the table; a second kernel joins them one after another."""

import torch
import triton
import triton.language as tl

ROWS, BLOCK_N = 16, 32
STRIDES = ["stride_qb", "stride_qh", "stride_tb", "stride_tn"]
STRIDES += [f"stride_{tensor}{axis}" for tensor in "kv" for axis in "psh"]
LOG2_E = tl.constexpr(1.4426950408889634)


# One kernel for all shapes: specialised ones would be faster, and each would be compiled.
@triton.jit(do_not_specialize=["group", "page", "scale", *STRIDES])
def split_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    table_ptr,
    lengths_ptr,
    acc_ptr,
    lse_ptr,
    group,
    page,
    scale,
    stride_qb,
    stride_qh,
    stride_tb,
    stride_tn,
    stride_kp,
    stride_ks,
    stride_kh,
    stride_vp,
    stride_vs,
    stride_vh,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr,
    SPLITS: tl.constexpr,
):
    b, h, split = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    length = tl.load(lengths_ptr + b)
    # Whole tiles for every split but the last one that has any.
    chunk = tl.cdiv(tl.cdiv(length, SPLITS), BLOCK_N) * BLOCK_N
    last = tl.minimum((split + 1) * chunk, length)
    members, dims = tl.arange(0, ROWS)[:, None], tl.arange(0, D)[None, :]
    head = h * group + members
    q = tl.load(q_ptr + b * stride_qb + head * stride_qh + dims, mask=members < group, other=0.0)
    top = tl.full((ROWS,), float("-inf"), dtype=tl.float32)
    total = tl.full((ROWS,), 0.0, dtype=tl.float32)
    acc = tl.full((ROWS, D), 0.0, dtype=tl.float32)
    for start in range(split * chunk, last, BLOCK_N):
        slots = start + tl.arange(0, BLOCK_N)
        inside = slots < last
        pages = tl.load(table_ptr + b * stride_tb + slots // page * stride_tn, mask=inside, other=0).to(tl.int64)
        k_rows, v_rows = (
            pages * stride_kp + slots % page * stride_ks + h * stride_kh,
            pages * stride_vp + slots % page * stride_vs + h * stride_vh,
        )
        k = tl.load(k_ptr + k_rows[:, None] + dims, mask=inside[:, None], other=0.0)
        v = tl.load(v_ptr + v_rows[:, None] + dims, mask=inside[:, None], other=0.0)
        s = tl.where(inside[None, :], tl.dot(q, tl.trans(k)) * (scale * LOG2_E), float("-inf"))
        new_top = tl.maximum(top, tl.max(s, 1))
        p, rescale = tl.exp2(s - new_top[:, None]), tl.exp2(top - new_top)
        total = total * rescale + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * rescale[:, None])
        top = new_top
    place = (b * tl.num_programs(1) * group + head) * SPLITS + split
    tl.store(acc_ptr + place * D + dims, acc / tl.where(total == 0.0, 1.0, total)[:, None], mask=members < group)
    tl.store(lse_ptr + place, (top + tl.log2(total))[:, None], mask=members < group)


@triton.jit
def join_kernel(acc_ptr, lse_ptr, lengths_ptr, o_ptr, heads, D: tl.constexpr, SPLITS: tl.constexpr):
    row, dims = tl.program_id(0).to(tl.int64), tl.arange(0, D)
    top = tl.full((), float("-inf"), dtype=tl.float32)
    total = tl.full((), 0.0, dtype=tl.float32)
    o = tl.full((D,), 0.0, dtype=tl.float32)
    # An empty sequence has no splits to join.
    if tl.load(lengths_ptr + row // heads) > 0:
        for split in range(SPLITS):
            lse = tl.load(lse_ptr + row * SPLITS + split)
            # The first split is never empty.
            new_top = tl.maximum(top, lse)
            rescale, weight = tl.exp2(top - new_top), tl.exp2(lse - new_top)
            o = o * rescale + weight * tl.load(acc_ptr + (row * SPLITS + split) * D + dims)
            total = total * rescale + weight
            top = new_top
        o = o / total
    tl.store(o_ptr + row * D + dims, o.to(o_ptr.dtype.element_ty))


def splits_for(slots: int) -> int:
    """More slots, more programs."""
    return 4 if slots <= 512 else 8 if slots <= 1024 else 16


def paged_decode_attention(q, k_pages, v_pages, block_table, lengths, scale=None):
    (batch, queries, width), (_, page, heads, _) = q.shape, k_pages.shape
    scale = width**-0.5 if scale is None else scale
    splits = splits_for(block_table.shape[1] * page)
    acc = torch.empty((batch, queries, splits, width), dtype=torch.float32, device=q.device)
    lse = torch.empty((batch, queries, splits), dtype=torch.float32, device=q.device)
    o = torch.empty((batch, queries, width), dtype=q.dtype, device=q.device)
    split_kernel[(batch, heads, splits)](
        *(q, k_pages, v_pages, block_table, lengths, acc, lse, queries // heads, page, scale),
        *(*q.stride()[:2], *block_table.stride(), *k_pages.stride()[:3], *v_pages.stride()[:3]),
        D=width,
        ROWS=ROWS,
        BLOCK_N=BLOCK_N,
        SPLITS=splits,
    )
    join_kernel[(batch * queries,)](acc, lse, lengths, o, queries, D=width, SPLITS=splits)
    return o
