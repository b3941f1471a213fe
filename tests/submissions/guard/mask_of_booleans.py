"""fail: out_of_bounds: load of keep_ptr: a bool tensor, one byte an element, is as long as the others."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, keep_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    keep = tl.load(keep_ptr + offsets)  # here
    x = tl.load(x_ptr + offsets, mask=inside & keep, other=0.0)
    y = tl.load(y_ptr + offsets, mask=inside & keep, other=0.0)
    tl.store(z_ptr + offsets, x + y, mask=inside)


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(8,)](x, y, z, torch.ones(x.numel(), dtype=torch.bool, device=x.device), x.numel(), BLOCK=128)
    return z
