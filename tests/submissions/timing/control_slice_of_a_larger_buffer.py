"""passes: the result is a slice of a fresh, larger buffer."""

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, total, mask=inside)


def added(x, y):
    z = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 4096),)](x, y, z, x.numel(), BLOCK=4096)
    return z


def vector_add(x, y):
    n = x.numel()
    z = torch.empty(n + 160, dtype=x.dtype, device=x.device)[32 : 32 + n]
    _add[(triton.cdiv(n, 4096),)](x, y, z, n, BLOCK=4096)
    return z
