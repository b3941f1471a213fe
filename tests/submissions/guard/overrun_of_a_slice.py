"""fail: out_of_bounds: store of z_ptr: runs over the end of a slice, into the rest of the tensor it was cut from."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(z_ptr + offsets, x + y)  # here


def vector_add(x, y):
    pool = torch.zeros(3 * x.numel(), dtype=x.dtype, device=x.device)
    z = pool[x.numel() : 2 * x.numel()]
    add_kernel[(triton.cdiv(x.numel(), 128),)](x, y, z, x.numel(), BLOCK=128)
    return z.clone()
