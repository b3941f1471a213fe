"""pass: cache modifiers, eviction policies and volatile loads of ordinary data."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0, cache_modifier=".cg", eviction_policy="evict_first")
    y = tl.load(y_ptr + offsets, mask=inside, other=0.0, volatile=True)
    again = tl.load(x_ptr + offsets, mask=inside, other=0.0, cache_modifier=".ca")
    tl.store(z_ptr + offsets, (x + again) / 2 + y, mask=inside, cache_modifier=".wt")


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 128),)](x, y, z, x.numel(), BLOCK=128)
    return z
