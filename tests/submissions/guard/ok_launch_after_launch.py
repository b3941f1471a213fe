"""pass: what one launch stores, other programs of the next one read and overwrite."""

import torch
import triton
import triton.language as tl


@triton.jit
def reverse_kernel(source_ptr, target_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(target_ptr + n - 1 - offsets, tl.load(source_ptr + offsets, mask=inside), mask=inside)


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside), mask=inside)


def vector_add(x, y):
    there, back, z = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    for _ in range(2):
        reverse_kernel[(8,)](x, there, x.numel(), BLOCK=128)
        reverse_kernel[(8,)](there, back, x.numel(), BLOCK=128)
    add_kernel[(8,)](back, y, z, x.numel(), BLOCK=128)
    return z
