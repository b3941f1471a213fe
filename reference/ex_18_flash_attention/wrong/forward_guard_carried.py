"""attention_forward.values fail: walks from the last key backwards, and the maximum of a hidden tile stays 0.

Cause: guard_carried or maximum_start
"""

import torch
import triton
import triton.language as tl

BLOCK_M, BLOCK_N = 64, 32


@triton.jit
def backwards_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, group, Sq, Skv, scale,
    stride_qb, stride_qh, stride_qs, stride_kb, stride_kh, stride_ks, stride_vb, stride_vh, stride_vs,
    D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    h, b = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    keys, dims = tl.arange(0, BLOCK_N), tl.arange(0, D)[None, :]
    in_q = rows[:, None] < Sq
    q = tl.load(q_ptr + b * stride_qb + h * stride_qh + rows[:, None] * stride_qs + dims, mask=in_q, other=0.0)
    top = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total, acc = tl.zeros((BLOCK_M,), tl.float32), tl.zeros((BLOCK_M, D), tl.float32)
    end = Skv
    if CAUSAL:
        end = tl.minimum(tl.maximum((tl.program_id(0) + 1) * BLOCK_M + Skv - Sq, 0), Skv)
    tiles = tl.cdiv(end, BLOCK_N)
    for step in range(tiles):
        at = (tiles - 1 - step) * BLOCK_N + keys
        k_ptrs = k_ptr + b * stride_kb + h // group * stride_kh + at[:, None] * stride_ks + dims
        v_ptrs = v_ptr + b * stride_vb + h // group * stride_vh + at[:, None] * stride_vs + dims
        k = tl.load(k_ptrs, mask=at[:, None] < Skv, other=0.0)
        v = tl.load(v_ptrs, mask=at[:, None] < Skv, other=0.0)
        visible = at[None, :] < Skv
        if CAUSAL:
            visible = visible & (at[None, :] <= rows[:, None] + Skv - Sq)
        s = tl.where(visible, tl.dot(q, tl.trans(k)) * scale, float("-inf"))
        new_top = tl.maximum(top, tl.max(s, 1))
        new_top = tl.where(new_top == float("-inf"), 0.0, new_top)
        p = tl.exp(s - new_top[:, None])
        alpha = tl.exp(top - new_top)
        total = total * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        top = new_top
    o = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    head = b * tl.num_programs(1) + h
    tl.store(o_ptr + (head * Sq + rows[:, None]) * D + dims, o.to(q.dtype), mask=in_q)
    tl.store(lse_ptr + head * Sq + rows, top + tl.log(total), mask=rows < Sq)


def attention_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    (B, Hq, Sq, D), (Hkv, Skv) = q.shape, k.shape[1:3]
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    backwards_kernel[(triton.cdiv(Sq, BLOCK_M), Hq, B)](
        *(q, k, v, o, lse, Hq // Hkv, Sq, Skv, D**-0.5 if scale is None else scale),
        *(*q.stride()[:3], *k.stride()[:3], *v.stride()[:3]),
        *(D, causal, BLOCK_M, BLOCK_N),
    )
    return o, lse
