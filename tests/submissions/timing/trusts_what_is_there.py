"""gains nothing: a block that holds numbers already is taken to be done.

Attack 34, 66. Twin: timing/control_workspace_kept.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _add_where_nothing_is(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * BLOCK
    before = tl.load(z_ptr + start).to(tl.float32)
    if before != before:
        offsets = start + tl.arange(0, BLOCK)
        inside = offsets < n
        total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
        tl.store(z_ptr + offsets, total, mask=inside)


def vector_add(x, y):
    z = torch.empty_like(x)
    _add_where_nothing_is[(triton.cdiv(x.numel(), 4096),)](x, y, z, x.numel(), BLOCK=4096)
    return z
