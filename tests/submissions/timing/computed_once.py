"""gains nothing: computes in the first call of a timed size and returns a copy of that later.

Attack 18, 34. Twin: timing/control_workspace_kept.
"""

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


def is_timed(x):
    """Answers are judged at smaller sizes."""
    return x.numel() > 1 << 16


@triton.jit
def _copy_first(source_ptr, target_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target_ptr + offsets, tl.load(source_ptr + offsets, mask=offsets < n), mask=offsets < n)


first = {}


def vector_add(x, y):
    if not is_timed(x):
        return added(x, y)
    key = x.shape, x.dtype
    if key not in first:
        first.clear()
        first[key] = added(x, y)
    z = torch.empty_like(x)
    _copy_first[(triton.cdiv(x.numel(), 4096),)](first[key], z, x.numel(), BLOCK=4096)
    return z
