"""fail: race: store of s_ptr: an atomic of scope "cta" is one among a program's own threads, and all programs add."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, s_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    y = tl.load(y_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(z_ptr + offsets, x + y, mask=offsets < n)
    tl.atomic_add(s_ptr, tl.sum(x, axis=0), scope="cta")  # here, there


def vector_add(x, y):
    z, s = torch.empty_like(x), torch.zeros((), dtype=x.dtype, device=x.device)
    add_kernel[(8,)](x, y, z, s, x.numel(), BLOCK=128)
    return z
