"""fail: out_of_bounds: atomic of locks_ptr: one lock for every program but the last."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, locks_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    while tl.atomic_cas(locks_ptr + tl.program_id(0), 0, 1) == 1:  # here
        pass
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(z_ptr + offsets, x + y, mask=offsets < n)


def vector_add(x, y):
    z = torch.empty_like(x)
    locks = torch.zeros(7, dtype=torch.int32, device=x.device)
    add_kernel[(8,)](x, y, z, locks, x.numel(), BLOCK=128)
    return z
