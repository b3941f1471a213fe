"""fail: race: load of s_ptr: the last program in the grid takes the sum, whether or not the others are done."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, s_ptr, mean_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    y = tl.load(y_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(z_ptr + offsets, x + y, mask=offsets < n)
    tl.atomic_add(s_ptr, tl.sum(x, axis=0), sem="relaxed")  # there
    if tl.program_id(0) == tl.num_programs(0) - 1:
        tl.store(mean_ptr, tl.load(s_ptr) / n)  # here


def vector_add(x, y):
    z, s = torch.empty_like(x), torch.zeros(2, dtype=x.dtype, device=x.device)
    add_kernel[(8,)](x, y, z, s, s[1:], x.numel(), BLOCK=128)
    return z
