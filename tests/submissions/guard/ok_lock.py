"""pass: a spin lock around a load, an addition and a store."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, s_ptr, lock_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    y = tl.load(y_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(z_ptr + offsets, x + y, mask=offsets < n)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(s_ptr, tl.load(s_ptr) + tl.sum(x, axis=0))
    tl.atomic_xchg(lock_ptr, 0)


def vector_add(x, y):
    z, s = torch.empty_like(x), torch.zeros((), dtype=x.dtype, device=x.device)
    lock = torch.zeros((), dtype=torch.int32, device=x.device)
    add_kernel[(8,)](x, y, z, s, lock, x.numel(), BLOCK=128)
    return z
