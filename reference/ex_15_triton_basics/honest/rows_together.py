"""Four rows of any length per program, as one two-dimensional tile."""

import torch
import triton
import triton.language as tl

ROWS = 4


@triton.jit
def softmax_kernel(x_ptr, p_ptr, n_rows, n_columns, stride_xm, stride_pm, ROWS: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK_N)
    exists = (rows < n_rows)[:, None]
    mask = exists & (columns < n_columns)[None, :]
    x = tl.load(x_ptr + rows[:, None] * stride_xm + columns[None, :], mask=mask, other=float("-inf")).to(tl.float32)
    # A row that does not exist gets the maximum 0, so that nothing becomes NaN.
    largest = tl.where(exists, tl.max(x, axis=1)[:, None], 0.0)
    numerator = tl.exp(x - largest)
    total = tl.where(exists, tl.sum(numerator, axis=1)[:, None], 1.0)
    tl.store(p_ptr + rows[:, None] * stride_pm + columns[None, :], numerator / total, mask=mask)


def row_softmax(x: torch.Tensor) -> torch.Tensor:
    n_rows, n_columns = x.shape
    p = torch.empty((n_rows, n_columns), dtype=x.dtype, device=x.device)
    block_n = triton.next_power_of_2(n_columns)
    warps = min(max(ROWS * block_n // 1024, 1), 16)
    softmax_kernel[(triton.cdiv(n_rows, ROWS),)](
        x, p, n_rows, n_columns, x.stride(0), p.stride(0), ROWS=ROWS, BLOCK_N=block_n, num_warps=warps
    )
    return p
