"""row_softmax.powers_of_two fail: a program takes four rows and divides by the sum over all four of them.

Cause: wrong_axis
"""

import torch
import triton
import triton.language as tl

ROWS = 4


@triton.jit
def softmax_kernel(x_ptr, p_ptr, n_rows, n_columns, stride_xm, stride_pm, ROWS: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    columns = tl.arange(0, BLOCK_N)[None, :]
    mask = (rows < n_rows) & (columns < n_columns)
    x = tl.load(x_ptr + rows * stride_xm + columns, mask=mask, other=float("-inf")).to(tl.float32)
    # The mistake: without an axis, a reduction takes the whole tile.
    numerator = tl.exp(x - tl.max(x))
    tl.store(p_ptr + rows * stride_pm + columns, numerator / tl.sum(numerator), mask=mask)


def row_softmax(x: torch.Tensor) -> torch.Tensor:
    n_rows, n_columns = x.shape
    p = torch.empty((n_rows, n_columns), dtype=x.dtype, device=x.device)
    block_n = triton.next_power_of_2(n_columns)
    warps = min(max(ROWS * block_n // 1024, 1), 16)
    softmax_kernel[(triton.cdiv(n_rows, ROWS),)](
        x, p, n_rows, n_columns, x.stride(0), p.stride(0), ROWS=ROWS, BLOCK_N=block_n, num_warps=warps
    )
    return p
