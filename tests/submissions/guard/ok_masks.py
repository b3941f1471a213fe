"""pass: masks on every access; masked lanes may point anywhere."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + tl.where(inside, offsets, -1000000), mask=inside)
    y = tl.load(y_ptr + tl.where(inside, offsets.to(tl.int64), 1152921504606846976), mask=inside, other=0.0)
    tl.store(z_ptr + offsets, x + y, mask=inside)


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 128),)](x, y, z, x.numel(), BLOCK=128)
    return z
