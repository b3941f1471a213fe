"""Block pointers, whose bounds are checked where tiles may overrun.

Needs triton < 3.9: block pointers.
"""

import torch
import triton
import triton.language as tl

BLOCK_M, BLOCK_N = 64, 64
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
    tile, h, b = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    head = b * tl.num_programs(1) + h
    rows, keys = tile * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    q_at = q_ptr + b * stride_qb + h * stride_qh
    k_at = k_ptr + b * stride_kb + h // group * stride_kh
    v_at = v_ptr + b * stride_vb + h // group * stride_vh
    q_tile = tl.make_block_ptr(q_at, (Sq, D), (stride_qs, 1), (tile * BLOCK_M, 0), (BLOCK_M, D), (1, 0))
    k_tile = tl.make_block_ptr(k_at, (D, Skv), (1, stride_ks), (0, 0), (D, BLOCK_N), (0, 1))
    v_tile = tl.make_block_ptr(v_at, (Skv, D), (stride_vs, 1), (0, 0), (BLOCK_N, D), (1, 0))
    o_tile = tl.make_block_ptr(o_ptr + head * Sq * D, (Sq, D), (D, 1), (tile * BLOCK_M, 0), (BLOCK_M, D), (1, 0))
    q = tl.load(q_tile, boundary_check=(0,), padding_option="zero")
    top = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.full((BLOCK_M,), 0.0, tl.float32)
    acc = tl.full((BLOCK_M, D), 0.0, tl.float32)
    for start in range(0, Skv, BLOCK_N):
        k = tl.load(k_tile, boundary_check=(1,), padding_option="zero")
        v = tl.load(v_tile, boundary_check=(0,), padding_option="zero")
        visible = (start + keys < Skv)[None, :]
        if CAUSAL:
            visible = visible & (start + keys[None, :] <= rows[:, None] + Skv - Sq)
        s = tl.where(visible, tl.dot(q, k) * scale, float("-inf"))
        new_top = tl.maximum(top, tl.max(s, 1))
        shift = tl.where(new_top == float("-inf"), 0.0, new_top)
        p = tl.exp(s - shift[:, None])
        alpha = tl.exp(top - shift)
        total = total * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        top = new_top
        k_tile = tl.advance(k_tile, (0, BLOCK_N))
        v_tile = tl.advance(v_tile, (BLOCK_N, 0))
    o = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(o_tile, o.to(q.dtype), boundary_check=(0,))
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
