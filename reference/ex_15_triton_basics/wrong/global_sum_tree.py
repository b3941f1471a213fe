"""global_sum.launches fail: every launch shrinks the vector 32 times, so long vectors need three or more launches.

Cause: several_launches
"""

import torch
import triton
import triton.language as tl

BLOCK = 32


@triton.jit
def shrink_kernel(x_ptr, partials_ptr, n_elements, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n_elements, other=0.0).to(tl.float32)
    tl.store(partials_ptr + pid, tl.sum(x, axis=0))


def global_sum(x: torch.Tensor) -> torch.Tensor:
    while True:
        partials = torch.empty(triton.cdiv(x.numel(), BLOCK), dtype=torch.float32, device=x.device)
        shrink_kernel[(partials.numel(),)](x, partials, x.numel(), BLOCK=BLOCK, num_warps=1)
        if partials.numel() == 1:
            return partials.view(())
        x = partials
