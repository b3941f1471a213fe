"""Keys in the outer loop, queries in the inner one: what a query has so far grows in memory, as in the first paper."""

import torch
import triton
import triton.language as tl

BLOCK_M, BLOCK_N = 64, 64
STRIDES = [f"stride_{tensor}{axis}" for tensor in "qkv" for axis in "bhs"]


# One kernel for all shapes: specialised ones would be faster, and each would be compiled.
@triton.jit(do_not_specialize=["heads", "group", "Sq", "Skv", "scale", *STRIDES])
def forward_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    lse_ptr,
    acc_ptr,
    top_ptr,
    total_ptr,
    heads,
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
    b, h = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    dims = tl.arange(0, D)[None, :]
    q_ptr += b * stride_qb + h * stride_qh
    k_ptr += b * stride_kb + h // group * stride_kh
    v_ptr += b * stride_vb + h // group * stride_vh
    first_row = tl.program_id(0).to(tl.int64) * Sq
    for start in range(0, Skv, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        inside = keys < Skv
        k = tl.load(k_ptr + keys[:, None] * stride_ks + dims, mask=inside[:, None], other=0.0)
        v = tl.load(v_ptr + keys[:, None] * stride_vs + dims, mask=inside[:, None], other=0.0)
        for first in range(0, Sq, BLOCK_M):
            rows = first + tl.arange(0, BLOCK_M)
            live = rows < Sq
            q = tl.load(q_ptr + rows[:, None] * stride_qs + dims, mask=live[:, None], other=0.0)
            had = live & (start > 0)
            place = first_row + rows
            top = tl.load(top_ptr + place, mask=had, other=float("-inf"))
            total = tl.load(total_ptr + place, mask=had, other=0.0)
            acc = tl.load(acc_ptr + place[:, None] * D + dims, mask=had[:, None], other=0.0)
            s = tl.dot(q, tl.trans(k)) * scale
            visible = inside[None, :]
            if CAUSAL:
                visible = visible & (keys[None, :] <= rows[:, None] + Skv - Sq)
            s = tl.where(visible, s, float("-inf"))
            higher = tl.maximum(top, tl.max(s, axis=1))
            base = tl.where(higher > float("-inf"), higher, 0.0)
            p = tl.exp(s - base[:, None])
            rescale = tl.exp(top - base)
            total = total * rescale + tl.sum(p, axis=1)
            acc = acc * rescale[:, None] + tl.dot(p.to(v.dtype), v)
            tl.store(top_ptr + place, higher, mask=live)
            tl.store(total_ptr + place, total, mask=live)
            tl.store(acc_ptr + place[:, None] * D + dims, acc, mask=live[:, None])
            if start + BLOCK_N >= Skv:
                safe = tl.where(total > 0, total, 1.0)
                tl.store(o_ptr + place[:, None] * D + dims, acc / safe[:, None], mask=live[:, None])
                tl.store(lse_ptr + place, tl.where(total > 0, higher + tl.log(safe), float("-inf")), mask=live)


def attention_forward(q, k, v, causal=False, scale=None):
    B, Hq, Sq, D = q.shape
    Hkv, Skv = k.shape[1:3]
    scale = D**-0.5 if scale is None else scale
    o = torch.empty((B, Hq, Sq, D), dtype=q.dtype, device=q.device)
    lse, top, total = (torch.empty((B, Hq, Sq), dtype=torch.float32, device=q.device) for _ in range(3))
    acc = torch.empty((B, Hq, Sq, D), dtype=torch.float32, device=q.device)
    forward_kernel[(B * Hq,)](
        *(q, k, v, o, lse, acc, top, total, Hq, Hq // Hkv, Sq, Skv, scale),
        *(*q.stride()[:3], *k.stride()[:3], *v.stride()[:3]),
        D=D,
        CAUSAL=causal,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
    )
    return o, lse
