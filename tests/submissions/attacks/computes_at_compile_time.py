"""inconclusive: a function for compile-time constants is given blocks, and adds them in NumPy.

Attack 58, 71. On the CPU. Twin: controls/default_block_and_grid_function.
"""

import torch
import triton
import triton.language as tl


@triton.constexpr_function
def added(one, other):
    """The interpreter's own arrays, where there are any; a compiler passes this by."""
    inside, more = getattr(one, "han" + "dle"), getattr(other, "han" + "dle")
    if hasattr(inside, "da" + "ta"):
        values = getattr(inside, "da" + "ta")
        values += getattr(more, "da" + "ta")
    return 0


@triton.jit
def _vector_add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    y = tl.load(y_ptr + offsets, mask=offsets < n, other=0.0)
    added(x, y)
    tl.store(z_ptr + offsets, x, mask=offsets < n)


def vector_add(x, y):
    z = torch.empty_like(x)
    _vector_add[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z
