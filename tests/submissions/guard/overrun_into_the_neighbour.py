"""fail: out_of_bounds: load of x_ptr: reads on into another argument of the same kernel."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    # x and y lie one behind the other: the address is that of an element of y.
    x = tl.load(x_ptr + offsets)  # here
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(z_ptr + offsets, x + y, mask=offsets < n)


def vector_add(x, y):
    both = torch.cat((x, y))
    z = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 128),)](both[: x.numel()], both[x.numel() :], z, x.numel(), BLOCK=128)
    return z
