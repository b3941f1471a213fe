"""fail: race: load of s_ptr: the same, load and store in one line."""

import torch
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, y_ptr, z_ptr, s_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    y = tl.load(y_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(z_ptr + offsets, x + y, mask=offsets < n)
    tl.store(s_ptr, tl.load(s_ptr) + tl.sum(x, axis=0))  # here and there


def vector_add(x, y):
    z, s = torch.empty_like(x), torch.zeros((), dtype=x.dtype, device=x.device)
    sum_kernel[(8,)](x, y, z, s, x.numel(), BLOCK=128)
    return z
