"""pass: a pointer chosen by the program, and one chosen lane by lane between two tensors."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    even = offsets % 2 == 0
    one = tl.load(tl.where(even, x_ptr + offsets, y_ptr + offsets), mask=inside)
    other = tl.load(tl.where(even, y_ptr + offsets, x_ptr + offsets), mask=inside)
    tl.store(z_ptr + offsets, one + other, mask=inside)


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 128),)](x, y, z, x.numel(), BLOCK=128)
    return z
