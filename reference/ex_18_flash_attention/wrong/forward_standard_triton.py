"""attention_forward.work fail: standard attention in three kernels, which hand the weights on through memory."""

import torch
import triton
import triton.language as tl

BLOCK_M, BLOCK_N = 64, 128


# One kernel for all shapes: specialised ones would be faster, and each would be compiled.
@triton.jit(do_not_specialize=["group", "Sq", "Skv", "scale"])
def logits_kernel(
    q_ptr, k_ptr, s_ptr, group, Sq, Skv, scale, D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK: tl.constexpr
):
    head = tl.program_id(2)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    keys = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[:, None]
    dims = tl.arange(0, D)[None, :]
    q = tl.load(q_ptr + (head * Sq + rows) * D + dims, mask=rows < Sq, other=0.0)
    k = tl.load(k_ptr + (head // group * Skv + keys) * D + dims, mask=keys < Skv, other=0.0)
    s = tl.dot(q, tl.trans(k)) * scale
    if CAUSAL:
        s = tl.where(tl.trans(keys) <= rows + Skv - Sq, s, float("-inf"))
    tl.store(s_ptr + (head * Sq + rows) * Skv + tl.trans(keys), s, mask=(rows < Sq) & (tl.trans(keys) < Skv))


@triton.jit(do_not_specialize=["Skv"])
def softmax_kernel(s_ptr, p_ptr, lse_ptr, Skv, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    keys = tl.arange(0, BLOCK)
    s = tl.load(s_ptr + row * Skv + keys, mask=keys < Skv, other=float("-inf"))
    top = tl.max(s, 0)
    top = tl.where(top == float("-inf"), 0.0, top)
    p = tl.exp(s - top)
    total = tl.sum(p, 0)
    p = p / tl.where(total == 0.0, 1.0, total)
    tl.store(p_ptr + row * Skv + keys, p.to(p_ptr.dtype.element_ty), mask=keys < Skv)
    tl.store(lse_ptr + row, top + tl.log(total))


@triton.jit(do_not_specialize=["group", "Sq", "Skv"])
def values_kernel(p_ptr, v_ptr, o_ptr, group, Sq, Skv, D: tl.constexpr, BLOCK: tl.constexpr):
    head = tl.program_id(1)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    dims = tl.arange(0, D)[None, :]
    acc = tl.full((BLOCK, D), 0.0, tl.float32)
    for start in range(0, Skv, BLOCK):
        keys = start + tl.arange(0, BLOCK)
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
    queries, keys = triton.cdiv(Sq, BLOCK_M), triton.cdiv(Skv, BLOCK_N)
    scale = D**-0.5 if scale is None else scale
    logits_kernel[(queries, keys, B * Hq)](q, k, s, Hq // Hkv, Sq, Skv, scale, D, causal, BLOCK_M)
    softmax_kernel[(B * Hq * Sq,)](s, p, lse, Skv, triton.next_power_of_2(Skv))
    values_kernel[(queries, B * Hq)](p, v, o, Hq // Hkv, Sq, Skv, D, BLOCK_M)
    return o, lse
