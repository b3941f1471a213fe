"""global_sum.values fail: a block whose first element is 0 is taken for empty and not added.

Cause: value_shortcut
"""

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def sum_kernel(x_ptr, s_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n_elements, other=0.0).to(tl.float32)
    first = tl.sum(tl.where(tl.arange(0, BLOCK) == 0, x, 0.0), axis=0)
    if first != 0.0:
        tl.atomic_add(s_ptr, tl.sum(x, axis=0))


def global_sum(x: torch.Tensor) -> torch.Tensor:
    s = torch.zeros((), dtype=torch.float32, device=x.device)
    sum_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, s, x.numel(), BLOCK=BLOCK)
    return s
