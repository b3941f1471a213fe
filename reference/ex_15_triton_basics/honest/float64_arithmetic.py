"""Arithmetic in float64, more precise than asked, for x·y + z and for softmax."""

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def multiply_add_kernel(x_ptr, y_ptr, z_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float64)
    y = tl.load(y_ptr + offsets, mask=mask).to(tl.float64)
    z = tl.load(z_ptr + offsets, mask=mask).to(tl.float64)
    tl.store(out_ptr + offsets, (x * y + z).to(tl.float32), mask=mask)


@triton.jit
def softmax_kernel(x_ptr, p_ptr, n_columns, stride_xm, stride_pm, BLOCK_N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK_N)
    mask = columns < n_columns
    x = tl.load(x_ptr + row * stride_xm + columns, mask=mask, other=float("-inf")).to(tl.float64)
    numerator = tl.exp(x - tl.max(x, axis=0))
    p = numerator / tl.sum(numerator, axis=0)
    tl.store(p_ptr + row * stride_pm + columns, p.to(tl.float32), mask=mask)


def fused_multiply_add(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    multiply_add_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, z, out, x.numel(), BLOCK=BLOCK)
    return out


def row_softmax(x: torch.Tensor) -> torch.Tensor:
    n_rows, n_columns = x.shape
    p = torch.empty((n_rows, n_columns), dtype=x.dtype, device=x.device)
    block_n = triton.next_power_of_2(n_columns)
    warps = min(max(block_n // 256, 1), 16)
    softmax_kernel[(n_rows,)](x, p, n_columns, x.stride(0), p.stride(0), BLOCK_N=block_n, num_warps=warps)
    return p
