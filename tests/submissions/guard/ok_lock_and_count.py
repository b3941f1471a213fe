"""pass: locks, one for each group; the first of a group stores, the others add (layer norm's backward)."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, sums_ptr, locks_ptr, n, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    offsets = pid * BLOCK + lanes
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    y = tl.load(y_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(z_ptr + offsets, x + y, mask=offsets < n)
    group = pid % GROUPS
    lock_ptr = locks_ptr + group
    count_ptr = lock_ptr + GROUPS
    sums_ptrs = sums_ptr + group * BLOCK + lanes
    partial = x
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    count = tl.load(count_ptr)
    if count == 0:
        tl.atomic_xchg(count_ptr, 1)
    else:
        partial += tl.load(sums_ptrs)
    tl.store(sums_ptrs, partial)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


def vector_add(x, y):
    z, sums = torch.empty_like(x), torch.empty((3, 128), dtype=x.dtype, device=x.device)
    locks = torch.zeros(6, dtype=torch.int32, device=x.device)
    add_kernel[(8,)](x, y, z, sums, locks, x.numel(), GROUPS=3, BLOCK=128)
    return z
