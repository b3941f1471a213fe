"""A float32 workspace that is kept between calls; the result is a cast of it."""

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside), mask=inside)

workspace = {}


def vector_add(x, y):
    z = workspace.setdefault(x.numel(), torch.empty(x.numel(), dtype=torch.float32, device=x.device))
    _add[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z.to(x.dtype, copy=True)
