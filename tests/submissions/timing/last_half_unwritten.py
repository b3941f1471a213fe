"""refused wrong_when_timed: leaves half of the result unwritten where it is timed.

Attack 48, 66. Twin: timing/control_slice_of_a_larger_buffer.
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


def vector_add(x, y):
    if not is_timed(x):
        return added(x, y)
    z = torch.empty_like(x)
    _add[(max(1, x.numel() // 2048),)](x, y, z, x.numel() // 2, BLOCK=1024)
    return z
