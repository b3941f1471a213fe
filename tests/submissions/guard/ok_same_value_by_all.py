"""pass: every program stores the same header; some say that they found something, all in one word."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, header_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0)
    tl.store(z_ptr + offsets, x + tl.load(y_ptr + offsets, mask=inside), mask=inside)
    tl.store(header_ptr, n)
    if tl.max(x, axis=0) > 1.0:
        tl.store(header_ptr + 1, 1)


def vector_add(x, y):
    z, header = torch.empty_like(x), torch.zeros(2, dtype=torch.int32, device=x.device)
    add_kernel[(8,)](x, y, z, header, x.numel(), BLOCK=128)
    return z
