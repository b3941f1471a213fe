"""pass: a chain of programs (each hands its running sum to the next): flags stored, and waited for."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, sums_ptr, flags_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0)
    y = tl.load(y_ptr + offsets, mask=inside, other=0.0)
    tl.store(z_ptr + offsets, x + y, mask=inside)
    total = tl.sum(x, axis=0)
    if pid > 0:
        while tl.load(flags_ptr + pid - 1, cache_modifier=".cv", volatile=True) == 0:
            pass
        total += tl.load(sums_ptr + pid - 1)
        # What is two programs away was handed on as well.
        if pid > 1:
            total += 0 * tl.load(sums_ptr + pid - 2)
    tl.store(sums_ptr + pid, total)
    tl.debug_barrier()
    tl.store(flags_ptr + pid, 1)


def vector_add(x, y):
    z, sums = torch.empty_like(x), torch.empty(8, dtype=x.dtype, device=x.device)
    flags = torch.zeros(8, dtype=torch.int32, device=x.device)
    add_kernel[(8,)](x, y, z, sums, flags, x.numel(), BLOCK=128)
    return z
