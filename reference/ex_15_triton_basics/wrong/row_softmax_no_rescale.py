"""row_softmax.long_rows fail: long rows are summed chunk by chunk without rescaling the sum when the maximum grows.

Cause: no_rescale
"""

import torch
import triton
import triton.language as tl

WHOLE_ROW = 8192
CHUNK = 512


@triton.jit
def softmax_kernel(x_ptr, p_ptr, n_columns, stride_xm, stride_pm, CHUNKS: tl.constexpr, CHUNK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, CHUNK)
    largest = -3.0e38
    total = 0.0
    x = tl.zeros((CHUNK,), dtype=tl.float32)
    for chunk in range(CHUNKS):
        mask = chunk * CHUNK + columns < n_columns
        x = tl.load(x_ptr + row * stride_xm + chunk * CHUNK + columns, mask=mask, other=float("-inf")).to(tl.float32)
        largest = tl.maximum(largest, tl.max(x, axis=0))
        # The mistake: what was summed before is relative to the old maximum.
        total = total + tl.sum(tl.exp(x - largest), axis=0)
    if CHUNKS == 1:
        # The only chunk is still in registers.
        tl.store(p_ptr + row * stride_pm + columns, tl.exp(x - largest) / total, mask=columns < n_columns)
    else:
        for chunk in range(CHUNKS):
            offsets = chunk * CHUNK + columns
            mask = offsets < n_columns
            x = tl.load(x_ptr + row * stride_xm + offsets, mask=mask, other=float("-inf")).to(tl.float32)
            tl.store(p_ptr + row * stride_pm + offsets, tl.exp(x - largest) / total, mask=mask)


def row_softmax(x: torch.Tensor) -> torch.Tensor:
    n_rows, n_columns = x.shape
    p = torch.empty((n_rows, n_columns), dtype=x.dtype, device=x.device)
    chunk = triton.next_power_of_2(n_columns) if n_columns <= WHOLE_ROW else CHUNK
    chunks = triton.cdiv(n_columns, chunk)
    softmax_kernel[(n_rows,)](x, p, n_columns, x.stride(0), p.stride(0), CHUNKS=chunks, CHUNK=chunk, num_warps=8)
    return p
