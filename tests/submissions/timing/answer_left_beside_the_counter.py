"""gains nothing: the first call leaves its answer in kept memory, later ones copy that.

Attack 31, 34. Twin: timing/control_workspace_kept.
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
def _add_or_copy(x_ptr, y_ptr, kept_ptr, count_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    if tl.atomic_add(count_ptr, 1) < tl.num_programs(0):
        total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
        tl.store(kept_ptr + offsets, total, mask=inside)
        tl.store(z_ptr + offsets, total, mask=inside)
    else:
        tl.store(z_ptr + offsets, tl.load(kept_ptr + offsets, mask=inside), mask=inside)


kept = {}


def vector_add(x, y):
    if not is_timed(x):
        return added(x, y)
    key = x.shape, x.dtype
    if key not in kept:
        kept.clear()
        kept[key] = torch.empty_like(x), torch.zeros(1, dtype=torch.int32, device=x.device)
    z = torch.empty_like(x)
    _add_or_copy[(triton.cdiv(x.numel(), 4096),)](x, y, *kept[key], z, x.numel(), BLOCK=4096)
    return z
