"""vector_add: done_again or not_all_covered

A program starts at pid * BLOCK although it takes UNROLL blocks: programs overlap, and the end is covered by none.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def add_unrolled_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr, UNROLL: tl.constexpr):
    """UNROLL blocks per program."""
    base = tl.program_id(0).to(tl.int64) * BLOCK
    for u in tl.static_range(UNROLL):
        offs = base + u * BLOCK + tl.arange(0, BLOCK)
        m = offs < n
        a = tl.load(x_ptr + offs, mask=m)
        b = tl.load(y_ptr + offs, mask=m)
        tl.store(z_ptr + offs, a + b, mask=m)


def vector_add(x, y):
    z = torch.empty_like(x)
    n = x.numel()
    BLOCK, UNROLL = 256, 4
    add_unrolled_kernel[(triton.cdiv(n, BLOCK * UNROLL),)](x, y, z, n, BLOCK=BLOCK, UNROLL=UNROLL)
    return z
