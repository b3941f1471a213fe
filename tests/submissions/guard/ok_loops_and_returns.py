"""pass: while loops, an early return, nested functions and a tuple of tensors."""

import torch
import triton
import triton.language as tl


@triton.jit
def block_sum(pointers, offsets, n):
    return tl.load(pointers[0] + offsets, mask=offsets < n) + tl.load(pointers[1] + offsets, mask=offsets < n)


@triton.jit
def add_kernel(inputs, z_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * 2 * BLOCK
    if start >= n:
        return
    end = tl.minimum(start + 2 * BLOCK, n)
    while start < end:
        offsets = start + tl.arange(0, BLOCK)
        tl.store(z_ptr + offsets, block_sum(inputs, offsets, end), mask=offsets < end)
        start += BLOCK


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(9,)]((x, y), z, x.numel(), BLOCK=64)
    return z
