"""fail: out_of_bounds: load of x_ptr: a block pointer without boundary_check.

Needs triton < 3.9: block pointers.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    x_block = tl.make_block_ptr(x_ptr, (n,), (1,), (start,), (BLOCK,), (0,))
    y_block = tl.make_block_ptr(y_ptr, (n,), (1,), (start,), (BLOCK,), (0,))
    z_block = tl.make_block_ptr(z_ptr, (n,), (1,), (start,), (BLOCK,), (0,))
    x = tl.load(x_block)  # here
    y = tl.load(y_block, boundary_check=(0,))
    tl.store(z_block, x + y, boundary_check=(0,))


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 128),)](x, y, z, x.numel(), BLOCK=128)
    return z
