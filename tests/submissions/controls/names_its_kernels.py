"""A function makes kernels, and sets the name and the docstring of each."""

import torch
import triton
import triton.language as tl


def _made(name, combine):
    @triton.jit
    def kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = offsets < n
        x, y = tl.load(x_ptr + offsets, mask=inside), tl.load(y_ptr + offsets, mask=inside)
        tl.store(z_ptr + offsets, combine(x, y), mask=inside)

    kernel.__name__ = f"{name}_kernel"
    kernel.__doc__ = f"{name} of a block"
    return kernel


@triton.jit
def _plus(a, b):
    return a + b


_add = _made("add", _plus)


def vector_add(x, y):
    z = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z
