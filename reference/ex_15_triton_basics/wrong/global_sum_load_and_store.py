"""global_sum.traffic fail: every program adds to s by a load and a store, which is right only one after another.

Cause: lost_update
"""

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def sum_kernel(x_ptr, s_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n_elements, other=0.0).to(tl.float32)
    tl.store(s_ptr, tl.load(s_ptr) + tl.sum(x, axis=0))


def global_sum(x: torch.Tensor) -> torch.Tensor:
    s = torch.zeros((), dtype=torch.float32, device=x.device)
    sum_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, s, x.numel(), BLOCK=BLOCK)
    return s
