"""row_softmax: no_rescale

In long rows the per-lane sums are joined without the factor exp(m - top) of each lane.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_long_kernel(x_ptr, p_ptr, N, stride_x, stride_p, BLOCK: tl.constexpr):
    """A long row in pieces: maximum and sum in one walk, the quotients in a second."""
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * stride_x
    p_row = p_ptr + row * stride_p
    c = tl.arange(0, BLOCK)
    m = tl.full((BLOCK,), float("-inf"), tl.float32)
    s = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        x = tl.load(x_row + start + c, mask=start + c < N, other=float("-inf")).to(tl.float32)
        new = tl.maximum(m, x)
        safe = tl.where(new == float("-inf"), 0.0, new)
        s = s * tl.exp(m - safe) + tl.exp(x - safe)
        m = new
    top = tl.max(m, 0)
    total = tl.sum(s, 0)
    for start in range(0, N, BLOCK):
        x = tl.load(x_row + start + c, mask=start + c < N, other=float("-inf")).to(tl.float32)
        tl.store(p_row + start + c, (tl.exp(x - top) / total).to(p_ptr.dtype.element_ty), mask=start + c < N)


@triton.jit
def softmax_short_kernel(x_ptr, p_ptr, N, stride_x, stride_p, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_x + c, mask=c < N, other=float("-inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(p_ptr + row * stride_p + c, (e / tl.sum(e, 0)).to(p_ptr.dtype.element_ty), mask=c < N)


def row_softmax(x):
    M, N = x.shape
    p = torch.empty((M, N), dtype=x.dtype, device=x.device)
    if N <= 8192:
        softmax_short_kernel[(M,)](x, p, N, x.stride(0), p.stride(0), BLOCK=triton.next_power_of_2(N))
    else:
        softmax_long_kernel[(M,)](x, p, N, x.stride(0), p.stride(0), BLOCK=2048)
    return p
