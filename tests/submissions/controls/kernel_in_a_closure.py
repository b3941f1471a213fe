"""The kernel is made by a function, and calls a helper of that function."""

import torch
import triton
import triton.language as tl


def _made():
    @triton.jit
    def plus(a, b):
        return a + b

    @triton.jit
    def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = offsets < n
        total = plus(tl.load(x_ptr + offsets, mask=inside), tl.load(y_ptr + offsets, mask=inside))
        tl.store(z_ptr + offsets, total, mask=inside)

    return add


_add = _made()


def vector_add(x, y):
    z = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z
