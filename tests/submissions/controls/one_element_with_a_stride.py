"""The result of one element is a slice of a larger tensor, every seventh element of it."""

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, stride, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets * stride, total, mask=inside)


def vector_add(x, y):
    z = torch.empty(7 * x.numel(), dtype=x.dtype, device=x.device)[::7]
    _add[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), z.stride(0), BLOCK=1024)
    return z
