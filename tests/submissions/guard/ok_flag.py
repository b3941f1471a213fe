"""pass: program 0 sets a flag by an atomic; the others wait for it with volatile loads."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, scale_ptr, flag_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    if pid == 0:
        tl.store(scale_ptr, 1.0)
        tl.atomic_xchg(flag_ptr, 1)
    while tl.load(flag_ptr, volatile=True) == 0:
        pass
    scale = tl.load(scale_ptr)
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, total * scale, mask=inside)


def vector_add(x, y):
    z, scale = torch.empty_like(x), torch.empty((), dtype=torch.float32, device=x.device)
    flag = torch.zeros((), dtype=torch.int32, device=x.device)
    add_kernel[(8,)](x, y, z, scale, flag, x.numel(), BLOCK=128)
    return z
