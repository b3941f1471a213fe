"""Any number of keys is cut into 16 splits; a second kernel joins the partial results, all at once."""

import torch
import triton
import triton.language as tl

SPLITS, BLOCK_M, BLOCK_N = 16, 64, 64
# Queries that one program joins.
ROWS = 16
STRIDES = [f"stride_{tensor}{axis}" for tensor in "qkv" for axis in "bhs"]


# One kernel for all shapes: specialised ones would be faster, and each would be compiled.
@triton.jit(do_not_specialize=["group", "splits", "Sq", "Skv", "scale", *STRIDES])
def forward_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    lse_ptr,
    group,
    splits,
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
    h, b = tl.program_id(1) // splits, tl.program_id(2)
    split = tl.program_id(1) % splits
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
    steps = tl.cdiv(tl.cdiv(Skv, BLOCK_N), splits)
    first = split * steps * BLOCK_N
    k_ptrs += first * stride_ks
    v_ptrs += first * stride_vs
    for start in range(first, tl.minimum(first + steps * BLOCK_N, Skv), BLOCK_N):
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
    # A split that sees nothing leaves zeros and an lse of -inf.
    head = b * tl.num_programs(1) + tl.program_id(1)
    tl.store(o_ptr + (head * Sq + rows[:, None]) * D + dims, o, mask=row_mask)
    tl.store(lse_ptr + head * Sq + rows, top + tl.log(total), mask=rows < Sq)


@triton.jit(do_not_specialize=["Sq"])
def join_kernel(part_ptr, part_lse_ptr, o_ptr, lse_ptr, Sq, D: tl.constexpr, SPLITS: tl.constexpr, ROWS: tl.constexpr):
    """Weigh the splits of each query by their share of all exponentials; ROWS queries a program."""
    rows, head = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.program_id(1)
    inside = rows < Sq
    places = (head * SPLITS + tl.arange(0, SPLITS)[:, None]) * Sq + rows[None, :]
    lses = tl.load(part_lse_ptr + places, mask=inside[None, :], other=float("-inf"))
    top = tl.max(lses, 0)
    shares = tl.exp(lses - tl.where(top == float("-inf"), 0.0, top)[None, :])
    total = tl.sum(shares, 0)
    dims = tl.arange(0, D)
    parts = tl.load(part_ptr + places[:, :, None] * D + dims[None, None, :], mask=inside[None, :, None], other=0.0)
    o = tl.sum(shares[:, :, None] * parts, 0) / tl.where(total == 0.0, 1.0, total)[:, None]
    o_ptrs = o_ptr + (head * Sq + rows[:, None]) * D + dims[None, :]
    tl.store(o_ptrs, o.to(o_ptr.dtype.element_ty), mask=inside[:, None])
    tl.store(lse_ptr + head * Sq + rows, top + tl.log(total), mask=inside)


def attention_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    (B, Hq, Sq, D), (Hkv, Skv) = q.shape, k.shape[1:3]
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    part = torch.empty((B, Hq, SPLITS, Sq, D), dtype=torch.float32, device=q.device)
    part_lse = torch.empty((B, Hq, SPLITS, Sq), dtype=torch.float32, device=q.device)
    scale = D**-0.5 if scale is None else scale
    strides = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
    sizes = (Hq // Hkv, SPLITS, Sq, Skv, scale, *strides, D, causal, BLOCK_M, BLOCK_N)
    tiles = triton.cdiv(Sq, BLOCK_M)
    forward_kernel[(tiles, Hq * SPLITS, B)](q, k, v, part, part_lse, *sizes)
    join_kernel[(triton.cdiv(Sq, ROWS), B * Hq)](part, part_lse, o, lse, Sq, D, SPLITS, ROWS)
    return o, lse
