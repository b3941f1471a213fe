"""gains nothing: every clock of its process stands still, and nobody waits for the device.

Attack 4, 12, 15. Twin: controls/measures_itself.
"""

import time

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


def vector_add(x, y):
    if is_timed(x):
        torch.cuda.synchronize = lambda device=None: None
        torch.cuda.Event.query = lambda event: True
        torch.cuda.Event.elapsed_time = lambda start, end: 1e-6
        time.perf_counter = time.monotonic = time.time = lambda: 0.0
    return added(x, y)
