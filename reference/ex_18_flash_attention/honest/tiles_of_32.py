"""Tiles of 32 queries: they load keys and values half as often as the work check allows."""

import torch
import triton
import triton.language as tl

BLOCK_M, BLOCK_N = 32, 128
STRIDES = [f"stride_{tensor}{axis}" for tensor in "qkv" for axis in "bhs"]


# One kernel for all shapes: specialised ones would be faster, and each would be compiled.
@triton.jit(do_not_specialize=["group", "Sq", "Skv", "scale", *STRIDES])
def forward_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    lse_ptr,
    group,
    Sq,
    Skv,
    scale,
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
    h, b = tl.program_id(1), tl.program_id(2)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    keys, dims = tl.arange(0, BLOCK_N), tl.arange(0, D)[None, :]
    row_mask = rows[:, None] < Sq
    q_ptrs = q_ptr + b * stride_qb + h * stride_qh + rows[:, None] * stride_qs + dims
    k_ptrs = k_ptr + b * stride_kb + h // group * stride_kh + keys[:, None] * stride_ks + dims
    v_ptrs = v_ptr + b * stride_vb + h // group * stride_vh + keys[:, None] * stride_vs + dims
    q = tl.load(q_ptrs, mask=row_mask, other=0.0)
    top = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.full((BLOCK_M,), 0.0, tl.float32)
    acc = tl.full((BLOCK_M, D), 0.0, tl.float32)
    last = Skv
    if CAUSAL:
        last = tl.minimum(tl.maximum((tl.program_id(0) + 1) * BLOCK_M + Skv - Sq, 0), Skv)
    for start in range(0, last, BLOCK_N):
        inside = keys < Skv - start
        k = tl.load(k_ptrs, mask=inside[:, None], other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        visible = inside[None, :]
        if CAUSAL:
            visible = visible & (start + keys[None, :] <= rows[:, None] + Skv - Sq)
        s = tl.where(visible, s, float("-inf"))
        new_top = tl.maximum(top, tl.max(s, 1))
        shift = tl.where(new_top == float("-inf"), 0.0, new_top)
        p = tl.exp(s - shift[:, None])
        alpha = tl.exp(top - shift)
        total = total * alpha + tl.sum(p, 1)
        v = tl.load(v_ptrs, mask=inside[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        top = new_top
        k_ptrs += BLOCK_N * stride_ks
        v_ptrs += BLOCK_N * stride_vs
    o = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    head = b * tl.num_programs(1) + h
    tl.store(o_ptr + (head * Sq + rows[:, None]) * D + dims, o.to(q.dtype), mask=row_mask)
    tl.store(lse_ptr + head * Sq + rows, top + tl.log(total), mask=rows < Sq)


def attention_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    (B, Hq, Sq, D), (Hkv, Skv) = q.shape, k.shape[1:3]
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    scale = D**-0.5 if scale is None else scale
    strides = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
    grid = (triton.cdiv(Sq, BLOCK_M), Hq, B)
    forward_kernel[grid](q, k, v, o, lse, Hq // Hkv, Sq, Skv, scale, *strides, D, causal, BLOCK_M, BLOCK_N)
    return o, lse
