"""One kernel for all gradients: a program takes a tile of keys, then the tile of queries of the same number."""

import torch
import triton
import triton.language as tl

BLOCK, STEP = 64, 64
STRIDES = [f"stride_{tensor}{axis}" for tensor in "gqkv" for axis in "bhs"]


@triton.jit
def delta_kernel(do_ptr, o_ptr, delta_ptr, Hq, Sq, gb, gh, gs, ob, oh, os, D: tl.constexpr, ROWS: tl.constexpr):
    head = tl.program_id(1).to(tl.int64)
    b, h = head // Hq, head % Hq
    rows, dims = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, D)[None, :]
    live = rows[:, None] < Sq
    do = tl.load(do_ptr + b * gb + h * gh + rows[:, None] * gs + dims, mask=live, other=0.0).to(tl.float32)
    o = tl.load(o_ptr + b * ob + h * oh + rows[:, None] * os + dims, mask=live, other=0.0).to(tl.float32)
    tl.store(delta_ptr + head * Sq + rows, tl.sum(o * do, 1), mask=rows < Sq)


@triton.jit
def weights(q, k, lse, rows, keys, Sq, Skv, scale, CAUSAL: tl.constexpr):
    """exp(scale · q · kᵀ - lse), and 0 where a query does not see a key."""
    visible = (rows[:, None] < Sq) & (keys[None, :] < Skv) & (lse[:, None] > float("-inf"))
    if CAUSAL:
        visible = visible & (keys[None, :] <= rows[:, None] + Skv - Sq)
    return tl.exp(tl.where(visible, tl.dot(q, tl.trans(k)) * scale - lse[:, None], float("-inf")))


# One kernel for all shapes: specialised ones would be faster, and each would be compiled.
@triton.jit(do_not_specialize=["Hq", "group", "Sq", "Skv", "scale", *STRIDES])
def gradient_kernel(
    do_ptr,
    q_ptr,
    k_ptr,
    v_ptr,
    lse_ptr,
    delta_ptr,
    dq_ptr,
    dk_ptr,
    dv_ptr,
    Hq,
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
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK: tl.constexpr,
    STEP: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64)
    b, h = head // Hq, head % Hq
    dims = tl.arange(0, D)[None, :]
    do_ptr += b * stride_gb + h * stride_gh
    q_ptr += b * stride_qb + h * stride_qh
    k_ptr += b * stride_kb + h // group * stride_kh
    v_ptr += b * stride_vb + h // group * stride_vh
    lse_ptr += head * Sq
    delta_ptr += head * Sq
    own = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)

    if tl.program_id(0) * BLOCK < Skv:
        inside = own[:, None] < Skv
        k = tl.load(k_ptr + own[:, None] * stride_ks + dims, mask=inside, other=0.0)
        v = tl.load(v_ptr + own[:, None] * stride_vs + dims, mask=inside, other=0.0)
        dk = tl.zeros((BLOCK, D), dtype=tl.float32)
        dv = tl.zeros((BLOCK, D), dtype=tl.float32)
        for start in range(0, Sq, STEP):
            rows = start + tl.arange(0, STEP)
            live = rows[:, None] < Sq
            q = tl.load(q_ptr + rows[:, None] * stride_qs + dims, mask=live, other=0.0)
            do = tl.load(do_ptr + rows[:, None] * stride_gs + dims, mask=live, other=0.0)
            lse = tl.load(lse_ptr + rows, mask=rows < Sq, other=0.0)
            delta = tl.load(delta_ptr + rows, mask=rows < Sq, other=0.0)
            p = weights(q, k, lse, rows, own, Sq, Skv, scale, CAUSAL)
            ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
            dv = tl.dot(tl.trans(p.to(do.dtype)), do, dv)
            dk = tl.dot(tl.trans(ds.to(q.dtype)), q, dk)
        # Query heads that share keys meet here.
        places = (head // group * Skv + own[:, None]) * D + dims
        tl.atomic_add(dk_ptr + places, dk * scale, mask=inside)
        tl.atomic_add(dv_ptr + places, dv, mask=inside)

    if tl.program_id(0) * BLOCK < Sq:
        live = own[:, None] < Sq
        q = tl.load(q_ptr + own[:, None] * stride_qs + dims, mask=live, other=0.0)
        do = tl.load(do_ptr + own[:, None] * stride_gs + dims, mask=live, other=0.0)
        lse = tl.load(lse_ptr + own, mask=own < Sq, other=0.0)
        delta = tl.load(delta_ptr + own, mask=own < Sq, other=0.0)
        dq = tl.zeros((BLOCK, D), dtype=tl.float32)
        for start in range(0, Skv, STEP):
            keys = start + tl.arange(0, STEP)
            inside = keys[:, None] < Skv
            k = tl.load(k_ptr + keys[:, None] * stride_ks + dims, mask=inside, other=0.0)
            v = tl.load(v_ptr + keys[:, None] * stride_vs + dims, mask=inside, other=0.0)
            p = weights(q, k, lse, own, keys, Sq, Skv, scale, CAUSAL)
            ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
            dq = tl.dot(ds.to(k.dtype), k, dq)
        tl.store(dq_ptr + (head * Sq + own[:, None]) * D + dims, (dq * scale).to(q.dtype), mask=live)


def attention_backward(do, q, k, v, o, lse, causal=False, scale=None):
    (B, Hq, Sq, D), (Hkv, Skv) = q.shape, k.shape[1:3]
    scale = D**-0.5 if scale is None else scale
    dq = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    dk, dv = (torch.zeros(one.shape, dtype=torch.float32, device=q.device) for one in (k, v))
    delta = torch.empty(lse.shape, dtype=torch.float32, device=q.device)
    delta_kernel[(triton.cdiv(Sq, 64), B * Hq)](do, o, delta, Hq, Sq, *do.stride()[:3], *o.stride()[:3], D, 64)
    gradient_kernel[(triton.cdiv(max(Sq, Skv), BLOCK), B * Hq)](
        *(do, q, k, v, lse, delta, dq, dk, dv, Hq, Hq // Hkv, Sq, Skv, scale),
        *(*do.stride()[:3], *q.stride()[:3], *k.stride()[:3], *v.stride()[:3]),
        D=D,
        CAUSAL=causal,
        BLOCK=BLOCK,
        STEP=STEP,
    )
    return dq, dk.to(k.dtype), dv.to(v.dtype)
