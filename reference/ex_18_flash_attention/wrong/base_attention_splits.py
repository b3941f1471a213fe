"""FlashAttention in splits of the keys, four of them where keys are many; a second kernel weighs what they found."""

import torch
import triton
import triton.language as tl

BLOCK_M, BLOCK_N = 64, 64
STRIDES = [f"stride_{tensor}{axis}" for tensor in "qkv" for axis in "bhs"]


# One kernel for all shapes: specialised ones would be faster, and each would be compiled.
@triton.jit(do_not_specialize=["heads", "group", "Sq", "Skv", "scale", "chunk", *STRIDES])
def split_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    partial_ptr,
    lses_ptr,
    heads,
    group,
    Sq,
    Skv,
    scale,
    chunk,
    stride_qb,
    stride_qh,
    stride_qs,
    stride_kb,
    stride_kh,
    stride_ks,
    stride_vb,
    stride_vh,
    stride_vs,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    head, split = tl.program_id(1).to(tl.int64), tl.program_id(2)
    b, h = head // heads, head % heads
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims, row_mask = tl.arange(0, D)[None, :], rows[:, None] < Sq
    q = tl.load(q_ptr + b * stride_qb + h * stride_qh + rows[:, None] * stride_qs + dims, mask=row_mask, other=0.0)
    k_ptr += b * stride_kb + h // group * stride_kh
    v_ptr += b * stride_vb + h // group * stride_vh
    top = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.full((BLOCK_M,), 0.0, tl.float32)
    acc = tl.full((BLOCK_M, D), 0.0, tl.float32)
    last = tl.minimum((split + 1) * chunk, Skv)
    for start in range(split * chunk, last, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        inside = keys[:, None] < last
        k = tl.load(k_ptr + keys[:, None] * stride_ks + dims, mask=inside, other=0.0)
        v = tl.load(v_ptr + keys[:, None] * stride_vs + dims, mask=inside, other=0.0)
        visible = keys[None, :] < last
        if CAUSAL:
            visible = visible & (keys[None, :] <= rows[:, None] + Skv - Sq)
        s = tl.where(visible, tl.dot(q, tl.trans(k)) * scale, float("-inf"))
        new_top = tl.maximum(top, tl.max(s, 1))
        shift = tl.where(new_top == float("-inf"), 0.0, new_top)
        p = tl.exp(s - shift[:, None])
        alpha = tl.exp(top - shift)
        total = total * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        top = new_top
    place = (head * tl.num_programs(2) + split) * Sq + rows
    o = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(partial_ptr + place[:, None] * D + dims, o, mask=row_mask)
    tl.store(lses_ptr + place, top + tl.log(total), mask=rows < Sq)


@triton.jit(do_not_specialize=["Sq", "splits"])
def join_kernel(partial_ptr, lses_ptr, o_ptr, lse_ptr, Sq, splits, D: tl.constexpr, BLOCK_M: tl.constexpr):
    head = tl.program_id(1).to(tl.int64)
    rows, dims = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, D)[None, :]
    row_mask = rows[:, None] < Sq
    top = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.full((BLOCK_M,), 0.0, tl.float32)
    acc = tl.full((BLOCK_M, D), 0.0, tl.float32)
    for split in range(splits):
        place = (head * splits + split) * Sq + rows
        lse = tl.load(lses_ptr + place, mask=rows < Sq, other=float("-inf"))
        partial = tl.load(partial_ptr + place[:, None] * D + dims, mask=row_mask, other=0.0).to(tl.float32)
        new_top = tl.maximum(top, lse)
        shift = tl.where(new_top == float("-inf"), 0.0, new_top)
        alpha, weight = tl.exp(top - shift), tl.exp(lse - shift)
        total = total * alpha + weight
        acc = acc * alpha[:, None] + partial * weight[:, None]
        top = new_top
    o = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(o_ptr + (head * Sq + rows[:, None]) * D + dims, o.to(o_ptr.dtype.element_ty), mask=row_mask)
    tl.store(lse_ptr + head * Sq + rows, top + tl.log(total), mask=rows < Sq)


def attention_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    (B, Hq, Sq, D), (Hkv, Skv) = q.shape, k.shape[1:3]
    scale = D**-0.5 if scale is None else scale
    splits = 4 if Skv >= 4 * BLOCK_N else 1
    chunk = triton.cdiv(triton.cdiv(Skv, splits), BLOCK_N) * BLOCK_N
    partial = torch.empty((B, Hq, splits, Sq, D), dtype=torch.float32, device=q.device)
    lses = torch.empty((B, Hq, splits, Sq), dtype=torch.float32, device=q.device)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    tiles, strides = triton.cdiv(Sq, BLOCK_M), (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
    split_kernel[(tiles, B * Hq, splits)](
        *(q, k, v, partial, lses, Hq, Hq // Hkv, Sq, Skv, scale, chunk, *strides), D, causal, BLOCK_M, BLOCK_N
    )
    join_kernel[(tiles, B * Hq)](partial, lses, o, lse, Sq, splits, D, BLOCK_M)
    return o, lse
