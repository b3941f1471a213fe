"""fail: race: store of a_ptr: the right neighbour is read before it is overwritten, in the interpreter."""

import torch
import triton
import triton.language as tl


@triton.jit
def shift_kernel(a_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    right = tl.load(a_ptr + offsets + 1, mask=offsets + 1 < n, other=0.0)  # there
    tl.store(a_ptr + offsets, right, mask=offsets < n)  # here


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside), mask=inside)


def vector_add(x, y):
    shift_kernel[(8,)](x.clone(), x.numel(), BLOCK=128)
    z = torch.empty_like(x)
    add_kernel[(8,)](x, y, z, x.numel(), BLOCK=128)
    return z
