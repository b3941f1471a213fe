"""gains nothing: asks the cache to keep its inputs and its result.

Attack 23. Twin: timing/honest_twin.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _add_keeping(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside, eviction_policy="evict_last")
    y = tl.load(y_ptr + offsets, mask=inside, eviction_policy="evict_last")
    tl.store(z_ptr + offsets, x + y, mask=inside, eviction_policy="evict_last")


def vector_add(x, y):
    z = torch.empty_like(x)
    _add_keeping[(triton.cdiv(x.numel(), 4096),)](x, y, z, x.numel(), BLOCK=4096)
    return z
