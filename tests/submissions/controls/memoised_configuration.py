"""The block size is remembered by length."""

import functools

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(
        z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside), mask=inside
    )


def added(x, y):
    z = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z


@functools.cache
def block_for(n):
    return min(1024, max(16, triton.next_power_of_2(n)))


def vector_add(x, y):
    z = torch.empty_like(x)
    block = block_for(x.numel())
    _add[(triton.cdiv(x.numel(), block),)](x, y, z, x.numel(), BLOCK=block)
    return z
