"""Online softmax: rows longer than 8192 are read twice in chunks, with a running maximum and a rescaled running sum.

Shorter rows fit into one chunk, which stays in registers and is read once.
"""

import torch
import triton
import triton.language as tl

WHOLE_ROW = 8192
CHUNK = 2048


@triton.jit
def whole_row_kernel(x_ptr, p_ptr, n_columns, stride_xm, stride_pm, BLOCK_N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK_N)
    mask = columns < n_columns
    x = tl.load(x_ptr + row * stride_xm + columns, mask=mask, other=float("-inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(p_ptr + row * stride_pm + columns, numerator / tl.sum(numerator, axis=0), mask=mask)


@triton.jit
def online_kernel(x_ptr, p_ptr, n_columns, stride_xm, stride_pm, CHUNKS: tl.constexpr, CHUNK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, CHUNK)
    # Every lane runs its own softmax over the columns it sees; a finite start avoids -inf - -inf in empty lanes.
    largest = tl.full((CHUNK,), -3.0e38, dtype=tl.float32)
    total = tl.zeros((CHUNK,), dtype=tl.float32)
    for chunk in range(CHUNKS):
        mask = chunk * CHUNK + columns < n_columns
        x = tl.load(x_ptr + row * stride_xm + chunk * CHUNK + columns, mask=mask, other=float("-inf")).to(tl.float32)
        larger = tl.maximum(largest, x)
        # The sum so far is relative to the old maximum.
        total = total * tl.exp(largest - larger) + tl.exp(x - larger)
        largest = larger
    row_largest = tl.max(largest, axis=0)
    row_total = tl.sum(total * tl.exp(largest - row_largest), axis=0)
    for chunk in range(CHUNKS):
        mask = chunk * CHUNK + columns < n_columns
        x = tl.load(x_ptr + row * stride_xm + chunk * CHUNK + columns, mask=mask, other=float("-inf")).to(tl.float32)
        tl.store(p_ptr + row * stride_pm + chunk * CHUNK + columns, tl.exp(x - row_largest) / row_total, mask=mask)


def row_softmax(x: torch.Tensor) -> torch.Tensor:
    n_rows, n_columns = x.shape
    p = torch.empty((n_rows, n_columns), dtype=x.dtype, device=x.device)
    strides = (x.stride(0), p.stride(0))
    if n_columns <= WHOLE_ROW:
        whole_row_kernel[(n_rows,)](x, p, n_columns, *strides, BLOCK_N=triton.next_power_of_2(n_columns), num_warps=8)
    else:
        chunks = triton.cdiv(n_columns, CHUNK)
        online_kernel[(n_rows,)](x, p, n_columns, *strides, CHUNKS=chunks, CHUNK=CHUNK, num_warps=8)
    return p
