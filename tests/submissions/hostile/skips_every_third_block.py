"""fail: unwritten: programs whose number divides by three do nothing.

Attack 49, 66. Twin: controls/default_block_and_grid_function.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _some(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    if tl.program_id(0) % 3 != 2:
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = offsets < n
        x = tl.load(x_ptr + offsets, mask=inside)
        tl.store(z_ptr + offsets, x + tl.load(y_ptr + offsets, mask=inside), mask=inside)


def vector_add(x, y):
    z = torch.empty_like(x)
    _some[(triton.cdiv(x.numel(), 512),)](x, y, z, x.numel(), BLOCK=512)
    return z
