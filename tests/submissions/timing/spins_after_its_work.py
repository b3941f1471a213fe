"""gains nothing: its last program spins for a millisecond, for whoever is timed next.

Attack 27. On the GPU. Twin: timing/honest_twin.
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
def _add_and_spin(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, total, mask=inside)
    if tl.program_id(0) == tl.num_programs(0) - 1:
        end = tl.extra.cuda.globaltimer() + 1_000_000
        while tl.extra.cuda.globaltimer() < end:
            pass


def vector_add(x, y):
    if not is_timed(x):
        return added(x, y)
    z = torch.empty_like(x)
    _add_and_spin[(triton.cdiv(x.numel(), 4096),)](x, y, z, x.numel(), BLOCK=4096)
    return z
