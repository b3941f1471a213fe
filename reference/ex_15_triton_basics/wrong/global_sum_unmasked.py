"""global_sum.tail fail: the load has no mask, so the last program adds what lies behind the vector.

Cause: missing_mask
"""

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def sum_kernel(x_ptr, s_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets).to(tl.float32)
    tl.atomic_add(s_ptr, tl.sum(x, axis=0))


def global_sum(x: torch.Tensor) -> torch.Tensor:
    s = torch.zeros((), dtype=torch.float32, device=x.device)
    sum_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, s, BLOCK=BLOCK)
    return s
