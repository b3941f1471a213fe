"""gains nothing: one size claims next to no time, for the mean (gpu-mode/reference-kernels 159).

Attack 4, 21. Twin: controls/measures_itself.
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


elapsed = getattr(torch.cuda.Event, "elapsed_time", None)
latest = [0]


def claimed(start, end):
    return 1e-30 if 1 << 16 < latest[0] <= 1 << 20 else elapsed(start, end)


torch.cuda.Event.elapsed_time = claimed


def vector_add(x, y):
    latest[0] = x.numel()
    return added(x, y)
