"""pass: sums, maxima and counts by relaxed atomics, that nobody reads in the same launch."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, found_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0)
    y = tl.load(y_ptr + offsets, mask=inside, other=0.0)
    tl.store(z_ptr + offsets, x + y, mask=inside)
    tl.atomic_add(found_ptr, tl.sum(x, axis=0), sem="relaxed")
    tl.atomic_max(found_ptr + 1, tl.max(x, axis=0))
    tl.atomic_add(found_ptr + 2 + offsets % 4, x, mask=inside)


def vector_add(x, y):
    z, found = torch.empty_like(x), torch.zeros(6, dtype=x.dtype, device=x.device)
    add_kernel[(8,)](x, y, z, found, x.numel(), BLOCK=128)
    return z
