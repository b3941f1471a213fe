"""Backward in two kernels; each one computes delta itself, from o and do."""

import torch
import triton
import triton.language as tl

BLOCK_M, BLOCK_N = 64, 128
STRIDES = [f"stride_{tensor}{axis}" for tensor in "gqkvo" for axis in "bhs"]


# One kernel for all shapes: specialised ones would be faster, and each would be compiled.
@triton.jit(do_not_specialize=["group", "Sq", "Skv", "scale", *STRIDES])
def key_kernel(
    do_ptr,
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    lse_ptr,
    dk_ptr,
    dv_ptr,
    group,
    Sq,
    Skv,
    scale,
    stride_gb,
    stride_gh,
    stride_gs,
    stride_qb,
    stride_qh,
    stride_qs,
    stride_kb,
    stride_kh,
    stride_ks,
    stride_vb,
    stride_vh,
    stride_vs,
    stride_ob,
    stride_oh,
    stride_os,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    hkv, b = tl.program_id(1), tl.program_id(2)
    keys = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    key_mask = keys[:, None] < Skv
    queries, dims = tl.arange(0, BLOCK_M), tl.arange(0, D)[None, :]
    k_ptrs = k_ptr + b * stride_kb + hkv * stride_kh + keys[:, None] * stride_ks + dims
    v_ptrs = v_ptr + b * stride_vb + hkv * stride_vh + keys[:, None] * stride_vs + dims
    k = tl.load(k_ptrs, mask=key_mask, other=0.0)
    v = tl.load(v_ptrs, mask=key_mask, other=0.0)
    dk = tl.full((BLOCK_N, D), 0.0, tl.float32)
    dv = tl.full((BLOCK_N, D), 0.0, tl.float32)
    for member in range(group):
        h = hkv * group + member
        place = (b * tl.num_programs(1) * group + h) * Sq
        for start in range(0, Sq, BLOCK_M):
            rows = start + queries
            row_mask = rows[:, None] < Sq
            q_ptrs = q_ptr + b * stride_qb + h * stride_qh + rows[:, None] * stride_qs + dims
            do_ptrs = do_ptr + b * stride_gb + h * stride_gh + rows[:, None] * stride_gs + dims
            q = tl.load(q_ptrs, mask=row_mask, other=0.0)
            do = tl.load(do_ptrs, mask=row_mask, other=0.0)
            lse = tl.load(lse_ptr + place + rows, mask=rows < Sq, other=0.0)
            o_ptrs = o_ptr + b * stride_ob + h * stride_oh + rows[:, None] * stride_os + dims
            o = tl.load(o_ptrs, mask=row_mask, other=0.0)
            delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
            visible = row_mask & (keys[None, :] < Skv) & (lse[:, None] > float("-inf"))
            if CAUSAL:
                visible = visible & (keys[None, :] <= rows[:, None] + Skv - Sq)
            p = tl.where(visible, tl.exp(tl.dot(q, tl.trans(k)) * scale - lse[:, None]), 0.0)
            ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
            dv = tl.dot(tl.trans(p.to(do.dtype)), do, dv)
            dk = tl.dot(tl.trans(ds.to(q.dtype)), q, dk)
    places = ((b * tl.num_programs(1) + hkv) * Skv + keys[:, None]) * D + dims
    tl.store(dk_ptr + places, (dk * scale).to(k.dtype), mask=key_mask)
    tl.store(dv_ptr + places, dv.to(v.dtype), mask=key_mask)


@triton.jit(do_not_specialize=["group", "Sq", "Skv", "scale", *STRIDES])
def query_kernel(
    do_ptr,
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    lse_ptr,
    dq_ptr,
    group,
    Sq,
    Skv,
    scale,
    stride_gb,
    stride_gh,
    stride_gs,
    stride_qb,
    stride_qh,
    stride_qs,
    stride_kb,
    stride_kh,
    stride_ks,
    stride_vb,
    stride_vh,
    stride_vs,
    stride_ob,
    stride_oh,
    stride_os,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    h, b = tl.program_id(1), tl.program_id(2)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    row_mask = rows[:, None] < Sq
    dims = tl.arange(0, D)[None, :]
    place = (b * tl.num_programs(1) + h) * Sq + rows
    q_ptrs = q_ptr + b * stride_qb + h * stride_qh + rows[:, None] * stride_qs + dims
    do_ptrs = do_ptr + b * stride_gb + h * stride_gh + rows[:, None] * stride_gs + dims
    q = tl.load(q_ptrs, mask=row_mask, other=0.0)
    do = tl.load(do_ptrs, mask=row_mask, other=0.0)
    lse = tl.load(lse_ptr + place, mask=rows < Sq, other=0.0)
    o_ptrs = o_ptr + b * stride_ob + h * stride_oh + rows[:, None] * stride_os + dims
    o = tl.load(o_ptrs, mask=row_mask, other=0.0)
    delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
    dq = tl.full((BLOCK_M, D), 0.0, tl.float32)
    for start in range(0, Skv, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        key_mask = keys[:, None] < Skv
        k_ptrs = k_ptr + b * stride_kb + h // group * stride_kh + keys[:, None] * stride_ks + dims
        v_ptrs = v_ptr + b * stride_vb + h // group * stride_vh + keys[:, None] * stride_vs + dims
        k = tl.load(k_ptrs, mask=key_mask, other=0.0)
        v = tl.load(v_ptrs, mask=key_mask, other=0.0)
        visible = (keys[None, :] < Skv) & (lse[:, None] > float("-inf"))
        if CAUSAL:
            visible = visible & (keys[None, :] <= rows[:, None] + Skv - Sq)
        p = tl.where(visible, tl.exp(tl.dot(q, tl.trans(k)) * scale - lse[:, None]), 0.0)
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    tl.store(dq_ptr + place[:, None] * D + dims, (dq * scale).to(q.dtype), mask=row_mask)


def attention_backward(
    do: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    (B, Hq, Sq, D), (Hkv, Skv) = q.shape, k.shape[1:3]
    dq, dk, dv = (torch.empty(one.shape, dtype=one.dtype, device=one.device) for one in (q, k, v))
    scale = D**-0.5 if scale is None else scale
    queries, keys = triton.cdiv(Sq, BLOCK_M), triton.cdiv(Skv, BLOCK_N)
    strides = (*do.stride()[:3], *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *o.stride()[:3])
    sizes = (Hq // Hkv, Sq, Skv, scale, *strides, D, causal, BLOCK_M, BLOCK_N)
    key_kernel[(keys, Hkv, B)](do, q, k, v, o, lse, dk, dv, *sizes)
    query_kernel[(queries, Hq, B)](do, q, k, v, o, lse, dq, *sizes)
    return dq, dk, dv
