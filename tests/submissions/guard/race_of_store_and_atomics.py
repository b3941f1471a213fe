"""fail: race: atomic of s_ptr: program 0 clears the sum that the others add to."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, s_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    y = tl.load(y_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(z_ptr + offsets, x + y, mask=offsets < n)
    if tl.program_id(0) == 0:
        tl.store(s_ptr, 0.0)  # there
    tl.atomic_add(s_ptr, tl.sum(x, axis=0))  # here


def vector_add(x, y):
    z, s = torch.empty_like(x), torch.empty((), dtype=x.dtype, device=x.device)
    add_kernel[(8,)](x, y, z, s, x.numel(), BLOCK=128)
    return z
