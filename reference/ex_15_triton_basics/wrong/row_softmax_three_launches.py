"""row_softmax.launches fail: one kernel finds the maxima, a second one the sums, a third one writes the quotients.

Cause: several_launches
"""

import torch
import triton
import triton.language as tl


@triton.jit
def maximum_kernel(x_ptr, largest_ptr, n_columns, stride_xm, BLOCK_N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * stride_xm + columns, mask=columns < n_columns, other=float("-inf")).to(tl.float32)
    tl.store(largest_ptr + row, tl.max(x, axis=0))


@triton.jit
def total_kernel(x_ptr, largest_ptr, total_ptr, n_columns, stride_xm, BLOCK_N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * stride_xm + columns, mask=columns < n_columns, other=float("-inf")).to(tl.float32)
    tl.store(total_ptr + row, tl.sum(tl.exp(x - tl.load(largest_ptr + row)), axis=0))


@triton.jit
def quotient_kernel(x_ptr, largest_ptr, total_ptr, p_ptr, n_columns, stride_xm, stride_pm, BLOCK_N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK_N)
    mask = columns < n_columns
    x = tl.load(x_ptr + row * stride_xm + columns, mask=mask, other=float("-inf")).to(tl.float32)
    p = tl.exp(x - tl.load(largest_ptr + row)) / tl.load(total_ptr + row)
    tl.store(p_ptr + row * stride_pm + columns, p, mask=mask)


def row_softmax(x: torch.Tensor) -> torch.Tensor:
    n_rows, n_columns = x.shape
    largest = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    total = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    p = torch.empty((n_rows, n_columns), dtype=x.dtype, device=x.device)
    block_n = triton.next_power_of_2(n_columns)
    warps = min(max(block_n // 512, 1), 16)
    options = {"BLOCK_N": block_n, "num_warps": warps}
    maximum_kernel[(n_rows,)](x, largest, n_columns, x.stride(0), **options)
    total_kernel[(n_rows,)](x, largest, total, n_columns, x.stride(0), **options)
    quotient_kernel[(n_rows,)](x, largest, total, p, n_columns, x.stride(0), p.stride(0), **options)
    return p
