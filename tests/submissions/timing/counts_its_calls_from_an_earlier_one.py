"""gains nothing: as counts_its_calls, with a counter that a small call made.

Attack 18, 31. Twin: timing/control_counter_put_back.
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
def _add_now_and_then(x_ptr, y_ptr, z_ptr, count_ptr, n, BLOCK: tl.constexpr):
    calls = tl.atomic_add(count_ptr, 1) // tl.num_programs(0)
    if calls % 2 == 0:
        offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside = offsets < n
        total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
        tl.store(z_ptr + offsets, total, mask=inside)


counters = {}


def vector_add(x, y):
    counter = counters.setdefault(x.device, torch.zeros(1, dtype=torch.int32, device=x.device))
    if not is_timed(x):
        return added(x, y)
    z = torch.empty_like(x)
    _add_now_and_then[(triton.cdiv(x.numel(), 4096),)](x, y, z, counter, x.numel(), BLOCK=4096)
    return z
