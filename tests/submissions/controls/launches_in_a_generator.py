"""Its launches are steps of a generator, as in code that tries one configuration after another."""

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside), mask=inside)


def launches(x, y):
    z = torch.empty_like(x)
    for block in (1024,):
        if x.numel():
            _add[(triton.cdiv(x.numel(), block),)](x, y, z, x.numel(), BLOCK=block)
        yield z


def vector_add(x, y):
    (z,) = launches(x, y)
    return z
