"""pass: three arguments are parts of one storage, interleaved and one behind the other, and do not overlap."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, stride, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets * stride, mask=inside) + tl.load(y_ptr + offsets * stride, mask=inside)
    tl.store(z_ptr + offsets * stride, total, mask=inside)


def vector_add(x, y):
    woven = torch.empty((x.numel(), 3), dtype=x.dtype, device=x.device)
    woven[:, 0].copy_(x)
    woven[:, 1].copy_(y)
    add_kernel[(8,)](woven[:, 0], woven[:, 1], woven[:, 2], x.numel(), 3, BLOCK=128)
    joined = torch.cat((x, y, torch.empty_like(x)))
    add_kernel[(8,)](joined[:1000], joined[1000:2000], joined[2000:], x.numel(), 1, BLOCK=128)
    return joined[2000:].clone()
