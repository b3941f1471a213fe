"""fail: out_of_bounds: store of out_ptr: every second column belongs to the tensor, all are stored to."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x + y, mask=offsets < n)  # here


def vector_add(x, y):
    pairs = torch.empty((x.numel(), 2), dtype=x.dtype, device=x.device)
    add_kernel[(8,)](x, y, pairs[:, 0], x.numel(), BLOCK=128)
    return pairs[:, 0].clone()
