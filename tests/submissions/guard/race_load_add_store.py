"""fail: race: load of s_ptr: every program adds to one sum by a load and a store."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, s_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    y = tl.load(y_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(z_ptr + offsets, x + y, mask=offsets < n)
    total = tl.load(s_ptr) + tl.sum(x, axis=0)  # here
    tl.store(s_ptr, total)  # there


def vector_add(x, y):
    z, s = torch.empty_like(x), torch.zeros((), dtype=x.dtype, device=x.device)
    add_kernel[(8,)](x, y, z, s, x.numel(), BLOCK=128)
    return z
