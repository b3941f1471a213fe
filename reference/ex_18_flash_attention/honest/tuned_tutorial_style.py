"""Tunes both passes for every size: whole blocks of keys first, then those on the diagonal, in powers of two."""

from itertools import product
from typing import Any

import torch
import triton
import triton.language as tl

# BLOCK_M, BLOCK_N, warps
FORWARD_TILES = [(128, 64, 8), (128, 128, 8), (64, 64, 4), (64, 32, 4), (64, 128, 4)]
FORWARD = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n}, num_warps=warps, num_stages=stages)
    for (m, n, warps), stages in product(FORWARD_TILES, (2, 3, 4))
]
# No tile of 32 queries: with D = 64, triton 3.6 compiles it for an H200 to a dk that differs from run to run.
BACKWARD_OF_KEYS = [
    triton.Config({"BLOCK_M": 64, "BLOCK_N": n}, num_warps=n // 16, num_stages=stages)
    for n, stages in product((64, 128), (2, 3))
]
# The block that stays is the wider one.
BACKWARD_OF_QUERIES = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": 32}, num_warps=4, num_stages=stages)
    for m, stages in product((64, 128), (2, 3))
]
KEY = ["Sq", "Skv", "D", "CAUSAL"]
DELTA_ROWS = 64


def worth_trying(configs: list[triton.Config], nargs: dict[str, Any], **others: Any) -> list[triton.Config]:
    """Drop tiles of more queries than there are, and with a causal mask those that are wider than high."""
    most = max(64, nargs["Sq"])
    sides = [(config, config.kwargs["BLOCK_M"], config.kwargs["BLOCK_N"]) for config in configs]
    return [config for config, m, n in sides if m <= most and (m >= n or not others["CAUSAL"])]


@triton.jit
def walk(
    acc,
    total,
    top,
    q,
    k_ptr,
    v_ptr,
    rows,
    first,
    last,
    Skv,
    offset,
    qk_scale,
    stride_ks,
    stride_vs,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    dims = tl.arange(0, D)[None, :]
    for start in range(first, last, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k_ptrs = k_ptr + keys.to(tl.int64)[:, None] * stride_ks + dims
        v_ptrs = v_ptr + keys.to(tl.int64)[:, None] * stride_vs + dims
        if MASKED:
            k = tl.load(k_ptrs, mask=keys[:, None] < Skv, other=0.0)
            v = tl.load(v_ptrs, mask=keys[:, None] < Skv, other=0.0)
        else:
            k = tl.load(k_ptrs)
            v = tl.load(v_ptrs)
        s = tl.dot(q, k.T) * qk_scale
        if MASKED:
            visible = keys[None, :] < Skv
            if CAUSAL:
                visible = visible & (keys[None, :] <= rows[:, None] + offset)
            s = tl.where(visible, s, float("-inf"))
        new_top = tl.maximum(top, tl.max(s, 1))
        # A row that has seen no key has a maximum of -inf, and -inf minus -inf is NaN.
        shift = tl.where(new_top == float("-inf"), 0.0, new_top)
        p = tl.math.exp2(s - shift[:, None])
        shrink = tl.math.exp2(top - shift)
        total = total * shrink + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None])
        top = new_top
    return acc, total, top


@triton.autotune(configs=FORWARD, key=KEY, prune_configs_by={"early_config_prune": worth_trying})
@triton.jit
def forward_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    lse_ptr,
    Hq,
    group,
    Sq,
    Skv,
    qk_scale,
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
    head = tl.program_id(1).to(tl.int64)
    b, h = head // Hq, head % Hq
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    row_mask = rows[:, None] < Sq
    dims = tl.arange(0, D)[None, :]
    q_ptrs = q_ptr + b * stride_qb + h * stride_qh + rows.to(tl.int64)[:, None] * stride_qs + dims
    k_ptr += b * stride_kb + h // group * stride_kh
    v_ptr += b * stride_vb + h // group * stride_vh
    q = tl.load(q_ptrs, mask=row_mask, other=0.0)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    top = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    # Every row of this tile sees all keys below `whole`; none sees one from `last` on.
    offset = Skv - Sq
    whole, last = Skv, Skv
    if CAUSAL:
        whole = tl.minimum(tl.maximum(tl.program_id(0) * BLOCK_M + offset + 1, 0), Skv)
        last = tl.minimum(tl.maximum((tl.program_id(0) + 1) * BLOCK_M + offset, 0), Skv)
    whole = whole // BLOCK_N * BLOCK_N
    acc, total, top = walk(
        *(acc, total, top, q, k_ptr, v_ptr, rows, 0, whole, Skv, offset, qk_scale, stride_ks, stride_vs),
        *(D, CAUSAL, False, BLOCK_N),
    )
    acc, total, top = walk(
        *(acc, total, top, q, k_ptr, v_ptr, rows, whole, last, Skv, offset, qk_scale, stride_ks, stride_vs),
        *(D, CAUSAL, True, BLOCK_N),
    )
    o = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    # top and total count in powers of two: ln 2 leads back to the natural logarithm.
    lse = (top + tl.math.log2(total)) * 0.6931471805599453
    places = head * Sq + rows
    tl.store(o_ptr + places[:, None] * D + dims, o.to(o_ptr.dtype.element_ty), mask=row_mask)
    tl.store(lse_ptr + places, lse, mask=rows < Sq)


@triton.jit
def delta_kernel(
    do_ptr,
    o_ptr,
    delta_ptr,
    Hq,
    Sq,
    stride_gb,
    stride_gh,
    stride_gs,
    stride_ob,
    stride_oh,
    stride_os,
    D: tl.constexpr,
    ROWS: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64)
    b, h = head // Hq, head % Hq
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    dims = tl.arange(0, D)[None, :]
    do_ptrs = do_ptr + b * stride_gb + h * stride_gh + rows[:, None] * stride_gs + dims
    o_ptrs = o_ptr + b * stride_ob + h * stride_oh + rows[:, None] * stride_os + dims
    do = tl.load(do_ptrs, mask=rows[:, None] < Sq, other=0.0).to(tl.float32)
    o = tl.load(o_ptrs, mask=rows[:, None] < Sq, other=0.0).to(tl.float32)
    tl.store(delta_ptr + head * Sq + rows, tl.sum(o * do, 1), mask=rows < Sq)


@triton.jit
def weights_and_gradients(q, k, v, do, lse, delta, rows, keys, Sq, Skv, qk_scale, CAUSAL: tl.constexpr):
    """p and ds of a tile, both [BLOCK_M, BLOCK_N]; 0 where a query does not see a key."""
    # The lse of a row without keys is -inf, which would make its weights inf.
    visible = (rows[:, None] < Sq) & (keys[None, :] < Skv) & (lse[:, None] > float("-inf"))
    if CAUSAL:
        visible = visible & (keys[None, :] <= rows[:, None] + Skv - Sq)
    exponent = tl.dot(q, k.T) * qk_scale - lse[:, None] * 1.4426950408889634
    p = tl.math.exp2(tl.where(visible, exponent, float("-inf")))
    return p, p * (tl.dot(do, v.T) - delta[:, None])


@triton.autotune(configs=BACKWARD_OF_KEYS, key=KEY)
@triton.jit
def key_gradient_kernel(
    do_ptr,
    q_ptr,
    k_ptr,
    v_ptr,
    lse_ptr,
    delta_ptr,
    dk_ptr,
    dv_ptr,
    Hq,
    group,
    Sq,
    Skv,
    scale,
    qk_scale,
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
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    kv_head = tl.program_id(1).to(tl.int64)
    b, hkv = kv_head // (Hq // group), kv_head % (Hq // group)
    keys = (tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    key_mask = keys[:, None] < Skv
    dims = tl.arange(0, D)[None, :]
    k = tl.load(k_ptr + b * stride_kb + hkv * stride_kh + keys[:, None] * stride_ks + dims, mask=key_mask, other=0.0)
    v = tl.load(v_ptr + b * stride_vb + hkv * stride_vh + keys[:, None] * stride_vs + dims, mask=key_mask, other=0.0)
    dk = tl.zeros((BLOCK_N, D), dtype=tl.float32)
    dv = tl.zeros((BLOCK_N, D), dtype=tl.float32)
    first = 0
    if CAUSAL:
        # Earlier queries see none of these keys.
        first = tl.maximum(tl.program_id(0) * BLOCK_N + Sq - Skv, 0) // BLOCK_M * BLOCK_M
    for h in range(hkv * group, (hkv + 1) * group):
        place = (b * Hq + h) * Sq
        for start in range(first, Sq, BLOCK_M):
            rows = start + tl.arange(0, BLOCK_M).to(tl.int64)
            row_mask = rows[:, None] < Sq
            q_ptrs = q_ptr + b * stride_qb + h * stride_qh + rows[:, None] * stride_qs + dims
            do_ptrs = do_ptr + b * stride_gb + h * stride_gh + rows[:, None] * stride_gs + dims
            q = tl.load(q_ptrs, mask=row_mask, other=0.0)
            do = tl.load(do_ptrs, mask=row_mask, other=0.0)
            lse = tl.load(lse_ptr + place + rows, mask=rows < Sq, other=0.0)
            delta = tl.load(delta_ptr + place + rows, mask=rows < Sq, other=0.0)
            p, ds = weights_and_gradients(q, k, v, do, lse, delta, rows, keys, Sq, Skv, qk_scale, CAUSAL)
            dv = tl.dot(p.to(do.dtype).T, do, dv)
            dk = tl.dot(ds.to(q.dtype).T, q, dk)
    places = (kv_head * Skv + keys[:, None]) * D + dims
    tl.store(dk_ptr + places, (dk * scale).to(k.dtype), mask=key_mask)
    tl.store(dv_ptr + places, dv.to(v.dtype), mask=key_mask)


@triton.autotune(configs=BACKWARD_OF_QUERIES, key=KEY)
@triton.jit
def query_gradient_kernel(
    do_ptr,
    q_ptr,
    k_ptr,
    v_ptr,
    lse_ptr,
    delta_ptr,
    dq_ptr,
    Hq,
    group,
    Sq,
    Skv,
    scale,
    qk_scale,
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
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64)
    b, h = head // Hq, head % Hq
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    row_mask = rows[:, None] < Sq
    dims = tl.arange(0, D)[None, :]
    places = head * Sq + rows
    q = tl.load(q_ptr + b * stride_qb + h * stride_qh + rows[:, None] * stride_qs + dims, mask=row_mask, other=0.0)
    do = tl.load(do_ptr + b * stride_gb + h * stride_gh + rows[:, None] * stride_gs + dims, mask=row_mask, other=0.0)
    lse = tl.load(lse_ptr + places, mask=rows < Sq, other=0.0)
    delta = tl.load(delta_ptr + places, mask=rows < Sq, other=0.0)
    dq = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    last = Skv
    if CAUSAL:
        last = tl.minimum(tl.maximum((tl.program_id(0) + 1) * BLOCK_M + Skv - Sq, 0), Skv)
    for start in range(0, last, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N).to(tl.int64)
        key_mask = keys[:, None] < Skv
        k_ptrs = k_ptr + b * stride_kb + h // group * stride_kh + keys[:, None] * stride_ks + dims
        v_ptrs = v_ptr + b * stride_vb + h // group * stride_vh + keys[:, None] * stride_vs + dims
        k = tl.load(k_ptrs, mask=key_mask, other=0.0)
        v = tl.load(v_ptrs, mask=key_mask, other=0.0)
        _, ds = weights_and_gradients(q, k, v, do, lse, delta, rows, keys, Sq, Skv, qk_scale, CAUSAL)
        dq = tl.dot(ds.to(k.dtype), k, dq)
    tl.store(dq_ptr + places[:, None] * D + dims, (dq * scale).to(q.dtype), mask=row_mask)


def strides_of(*tensors: torch.Tensor) -> list[int]:
    return [stride for one in tensors for stride in one.stride()[:3]]


def attention_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    (B, Hq, Sq, D), (Hkv, Skv) = q.shape, k.shape[1:3]
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    scale = D**-0.5 if scale is None else scale

    def grid(meta: dict[str, int]) -> tuple[int, int]:
        return triton.cdiv(Sq, meta["BLOCK_M"]), B * Hq

    # exp(x) is 2 to the power of x · log2(e).
    sizes = (Hq, Hq // Hkv, Sq, Skv, scale * 1.4426950408889634)
    forward_kernel[grid](q, k, v, o, lse, *sizes, *strides_of(q, k, v), D=D, CAUSAL=bool(causal))
    return o, lse


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
    delta = torch.empty(lse.shape, dtype=torch.float32, device=q.device)
    scale = D**-0.5 if scale is None else scale

    def by_keys(meta: dict[str, int]) -> tuple[int, int]:
        return triton.cdiv(Skv, meta["BLOCK_N"]), B * Hkv

    def by_queries(meta: dict[str, int]) -> tuple[int, int]:
        return triton.cdiv(Sq, meta["BLOCK_M"]), B * Hq

    delta_kernel[(triton.cdiv(Sq, DELTA_ROWS), B * Hq)](do, o, delta, Hq, Sq, *strides_of(do, o), D, DELTA_ROWS)
    inputs = (do, q, k, v, lse, delta)
    sizes = (Hq, Hq // Hkv, Sq, Skv, scale, scale * 1.4426950408889634, *strides_of(do, q, k, v))
    key_gradient_kernel[by_keys](*inputs, dk, dv, *sizes, D=D, CAUSAL=bool(causal))
    query_gradient_kernel[by_queries](*inputs, dq, *sizes, D=D, CAUSAL=bool(causal))
    return dq, dk, dv
