"""Tensor descriptors made on the host, over copies that the TMA unit can read."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

BLOCK_M, BLOCK_N = 64, 64


@triton.jit(do_not_specialize=["Hq", "group", "Sq", "Skv", "scale"])
def forward_kernel(
    q_desc,
    k_desc,
    v_desc,
    o_desc,
    lse_ptr,
    group,
    Sq,
    Skv,
    scale,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    tile, head = tl.program_id(0), tl.program_id(1)
    rows, keys = tile * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    # Descriptors give zeros beyond the end of a head, and write nothing there.
    q = q_desc.load([head, tile * BLOCK_M, 0]).reshape(BLOCK_M, D)
    top = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.full((BLOCK_M,), 0.0, tl.float32)
    acc = tl.full((BLOCK_M, D), 0.0, tl.float32)
    for start in range(0, Skv, BLOCK_N):
        k = k_desc.load([head // group, start, 0]).reshape(BLOCK_N, D)
        v = v_desc.load([head // group, start, 0]).reshape(BLOCK_N, D)
        visible = (start + keys < Skv)[None, :]
        if CAUSAL:
            visible = visible & (start + keys[None, :] <= rows[:, None] + Skv - Sq)
        s = tl.where(visible, tl.dot(q, k.T) * scale, float("-inf"))
        new_top = tl.maximum(top, tl.max(s, 1))
        shift = tl.where(new_top == float("-inf"), 0.0, new_top)
        p = tl.exp(s - shift[:, None])
        alpha = tl.exp(top - shift)
        total = total * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        top = new_top
    o = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    o_desc.store([head, tile * BLOCK_M, 0], o.to(q.dtype).reshape(1, BLOCK_M, D))
    tl.store(lse_ptr + head * Sq + rows, top + tl.log(total), mask=rows < Sq)


def described(x: torch.Tensor, block: int) -> TensorDescriptor:
    """x: [B, H, S, D], contiguous, as [B · H, S, D]; a copy takes `block` rows of one head."""
    heads = x.flatten(0, 1)
    return TensorDescriptor(heads, list(heads.shape), list(heads.stride()), [1, block, x.shape[3]])


def attention_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    (B, Hq, Sq, D), (Hkv, Skv) = q.shape, k.shape[1:3]
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    # A tensor that does not start at a multiple of 16 bytes is copied to one that does.
    q, k, v = (one.clone() if one.data_ptr() % 16 else one for one in (q, k, v))
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    operands = (described(q, BLOCK_M), described(k, BLOCK_N), described(v, BLOCK_N), described(o, BLOCK_M))
    scale = D**-0.5 if scale is None else scale
    grid = (triton.cdiv(Sq, BLOCK_M), B * Hq)
    forward_kernel[grid](*operands, lse, Hq // Hkv, Sq, Skv, scale, D, causal, BLOCK_M, BLOCK_N)
    return o, lse
