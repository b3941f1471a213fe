"""attention_forward.work fail: standard attention in three kernels, which hand the weights on through memory.

Cause: large_temporary
"""

import torch
import triton
import triton.language as tl

BLOCK_M, BLOCK_N = 64, 128


# One kernel for all shapes: specialised ones would be faster, and each would be compiled.
@triton.jit(do_not_specialize=["group", "Sq", "Skv", "scale"])
def logits_kernel(
    q_ptr,
    k_ptr,
    s_ptr,
    group,
    Sq,
    Skv,
    scale,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    head = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    keys = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    dims = tl.arange(0, D)[None, :]
    q = tl.load(q_ptr + (head * Sq + rows) * D + dims, mask=rows < Sq, other=0.0)
    k_rows = head // group * Skv + keys[:, None]
    k = tl.load(k_ptr + k_rows * D + dims, mask=keys[:, None] < Skv, other=0.0)
    s = tl.dot(q, tl.trans(k)) * scale
    if CAUSAL:
        s = tl.where(keys[None, :] <= rows + Skv - Sq, s, float("-inf"))
    tl.store(s_ptr + (head * Sq + rows) * Skv + keys[None, :], s, mask=(rows < Sq) & (keys[None, :] < Skv))


@triton.jit(do_not_specialize=["rows", "Skv"])
def softmax_kernel(s_ptr, p_ptr, lse_ptr, rows, Skv, BLOCK_M: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    keys = tl.arange(0, BLOCK)[None, :]
    places = row[:, None] * Skv + keys
    inside = (row[:, None] < rows) & (keys < Skv)
    s = tl.load(s_ptr + places, mask=inside, other=float("-inf"))
    top = tl.max(s, 1)
    top = tl.where(top == float("-inf"), 0.0, top)
    p = tl.exp(s - top[:, None])
    total = tl.sum(p, 1)
    p = p / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(p_ptr + places, p.to(p_ptr.dtype.element_ty), mask=inside)
    tl.store(lse_ptr + row, top + tl.log(total), mask=row < rows)


@triton.jit(do_not_specialize=["group", "Sq", "Skv"])
def values_kernel(p_ptr, v_ptr, o_ptr, group, Sq, Skv, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    head = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    dims = tl.arange(0, D)[None, :]
    acc = tl.full((BLOCK_M, D), 0.0, tl.float32)
    for start in range(0, Skv, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        inside = (rows < Sq) & (keys[None, :] < Skv)
        p = tl.load(p_ptr + (head * Sq + rows) * Skv + keys[None, :], mask=inside, other=0.0)
        v_ptrs = v_ptr + (head // group * Skv + keys[:, None]) * D + dims
        acc = tl.dot(p, tl.load(v_ptrs, mask=keys[:, None] < Skv, other=0.0), acc)
    tl.store(o_ptr + (head * Sq + rows) * D + dims, acc.to(o_ptr.dtype.element_ty), mask=rows < Sq)


def attention_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    (B, Hq, Sq, D), (Hkv, Skv) = q.shape, k.shape[1:3]
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    s = torch.empty((B * Hq, Sq, Skv), dtype=torch.float32, device=q.device)
    p = torch.empty((B * Hq, Sq, Skv), dtype=q.dtype, device=q.device)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    scale = D**-0.5 if scale is None else scale
    tiles = (triton.cdiv(Sq, BLOCK_M), triton.cdiv(Skv, BLOCK_N), B * Hq)
    logits_kernel[tiles](q, k, s, Hq // Hkv, Sq, Skv, scale, D, causal, BLOCK_M, BLOCK_N)
    rows = B * Hq * Sq
    softmax_kernel[(triton.cdiv(rows, BLOCK_M),)](s, p, lse, rows, Skv, BLOCK_M, triton.next_power_of_2(Skv))
    values_kernel[(triton.cdiv(Sq, BLOCK_M), B * Hq)](p, v, o, Hq // Hkv, Sq, Skv, D, BLOCK_M, BLOCK_N)
    return o, lse
