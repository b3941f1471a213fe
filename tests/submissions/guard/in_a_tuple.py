"""fail: out_of_bounds: load of inputs[1]: the second tensor of a tuple."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(inputs, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(inputs[0] + offsets, mask=offsets < n)
    y = tl.load(inputs[1] + offsets)  # here
    tl.store(z_ptr + offsets, x + y, mask=offsets < n)


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(8,)]((x, y), z, x.numel(), BLOCK=128)
    return z
