"""row_softmax.fresh fail: every call writes into the input that the call before it was given.

The caller may still hold it.
Attack 38. Twin: controls/copies_its_inputs.
"""

import torch
import triton
import triton.language as tl

latest = {}


@triton.jit
def softmax_kernel(x_ptr, p_ptr, scratch_ptr, n_columns, stride_xm, stride_pm, BLOCK_N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK_N)
    inside = columns < n_columns
    x = tl.load(x_ptr + row * stride_xm + columns, mask=inside, other=float("-inf")).to(tl.float32)
    largest = tl.max(x, axis=0)
    e = tl.exp(x - largest)
    tl.store(p_ptr + row * stride_pm + columns, e / tl.sum(e, axis=0), mask=inside)
    if row == 0:
        tl.store(scratch_ptr, largest)


def row_softmax(x):
    M, N = x.shape
    p = torch.empty((M, N), dtype=x.dtype, device=x.device)
    key = M, N, x.stride(0), x.dtype, x.device
    scratch = latest.get(key)
    if scratch is None or scratch.data_ptr() == x.data_ptr():
        scratch = torch.empty(1, dtype=x.dtype, device=x.device)
    latest[key] = x
    softmax_kernel[(M,)](x, p, scratch, N, x.stride(0), p.stride(0), BLOCK_N=triton.next_power_of_2(N))
    return p
