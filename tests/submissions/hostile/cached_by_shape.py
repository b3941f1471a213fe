"""fail: unwritten: one answer for all inputs of a shape, kept where no object of Python's is.

Attack 30, 31. Twin: controls/kept_workspace_and_final_cast.
"""

import mmap

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(
        z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside), mask=inside
    )


def added(x, y):
    z = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z


kept = {}


def vector_add(x, y):
    key = (x.numel(), x.dtype)
    if key not in kept:
        z = added(x, y)
        kept[key] = mmap.mmap(-1, z.numel() * z.element_size())
        kept[key][:] = z.numpy().tobytes()
    return torch.frombuffer(kept[key], dtype=x.dtype).clone()
