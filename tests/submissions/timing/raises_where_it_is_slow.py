"""refused crash: raises at the size at which it is slow, so that the others count alone.

Attack 21, 50. Twin: controls/reraises.
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
    """Of the sizes that are timed on a GPU, those of two-byte types."""
    if is_timed(x) and x.element_size() == 2:
        raise ValueError("x must be smaller than the memory of this GPU")
    return added(x, y)
