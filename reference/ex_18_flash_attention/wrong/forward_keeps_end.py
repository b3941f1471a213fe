"""attention_forward.values fail: a persistent program goes no further than the last key of its tile before.

Cause: not_restarted or causal_loop
"""

import torch
import triton
import triton.language as tl

# Four times as many as a large GPU has multiprocessors.
PROGRAMS = 528
BLOCK_M, BLOCK_N = 64, 32


@triton.jit
def persistent_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, Hq, group, Sq, Skv, scale, tiles,
    stride_qb, stride_qh, stride_qs, stride_kb, stride_kh, stride_ks, stride_vb, stride_vh, stride_vs,
    D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    dims, keys = tl.arange(0, D)[None, :], tl.arange(0, BLOCK_N)
    of_head = tl.cdiv(Sq, BLOCK_M)
    end = Skv + 0
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        head = (tile // of_head).to(tl.int64)
        b, h = head // Hq, head % Hq
        rows = (tile % of_head) * BLOCK_M + tl.arange(0, BLOCK_M)
        in_q = rows[:, None] < Sq
        q = tl.load(q_ptr + b * stride_qb + h * stride_qh + rows[:, None] * stride_qs + dims, mask=in_q, other=0.0)
        top, total = tl.full((BLOCK_M,), -1e38, tl.float32), tl.zeros((BLOCK_M,), tl.float32)
        acc = tl.zeros((BLOCK_M, D), tl.float32)
        if CAUSAL:
            end = tl.minimum(end, (tile % of_head + 1) * BLOCK_M + Skv - Sq)
        for start in range(0, end, BLOCK_N):
            at = start + keys[:, None]
            k_ptrs = k_ptr + b * stride_kb + h // group * stride_kh + at * stride_ks + dims
            v_ptrs = v_ptr + b * stride_vb + h // group * stride_vh + at * stride_vs + dims
            k = tl.load(k_ptrs, mask=at < Skv, other=0.0)
            v = tl.load(v_ptrs, mask=at < Skv, other=0.0)
            visible = start + keys[None, :] < Skv
            if CAUSAL:
                visible = visible & (start + keys[None, :] <= rows[:, None] + Skv - Sq)
            s = tl.where(visible, tl.dot(q, tl.trans(k)) * scale, float("-inf"))
            new_top = tl.maximum(top, tl.max(s, 1))
            p = tl.exp(s - new_top[:, None])
            alpha = tl.exp(top - new_top)
            total = total * alpha + tl.sum(p, 1)
            acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
            top = new_top
        o = acc / tl.where(total == 0.0, 1.0, total)[:, None]
        tl.store(o_ptr + (head * Sq + rows[:, None]) * D + dims, o.to(q.dtype), mask=in_q)
        tl.store(lse_ptr + head * Sq + rows, top + tl.log(total), mask=rows < Sq)


def attention_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    (B, Hq, Sq, D), (Hkv, Skv) = q.shape, k.shape[1:3]
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    tiles = B * Hq * triton.cdiv(Sq, BLOCK_M)
    persistent_kernel[(min(tiles, PROGRAMS),)](
        *(q, k, v, o, lse, Hq, Hq // Hkv, Sq, Skv, D**-0.5 if scale is None else scale, tiles),
        *(*q.stride()[:3], *k.stride()[:3], *v.stride()[:3]),
        *(D, causal, BLOCK_M, BLOCK_N),
    )
    return o, lse
