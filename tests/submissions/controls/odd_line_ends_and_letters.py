"""Form feeds, separators of lines and letters that Python takes for others, before and in a right kernel."""

#         are no ends of lines to Python.
SEPARATORS = """    """

import torch
import triton
import triton.language as tl


@triton.jit
def first_add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.ｌoad(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside), mask=inside)


def added(x, y):
    z = torch.empty_like(x)
    ﬁrst_add[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z


def vector_add(x, y):
    return added(x, y)
