"""global_sum.kernels policy: a kernel sums each block, but torch adds up the sums of the blocks.

Cause: work_outside_kernels
"""

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def partials_kernel(x_ptr, partials_ptr, n_elements, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n_elements, other=0.0).to(tl.float32)
    tl.store(partials_ptr + pid, tl.sum(x, axis=0))


def global_sum(x: torch.Tensor) -> torch.Tensor:
    n_partials = triton.cdiv(x.numel(), BLOCK)
    partials = torch.empty(n_partials, dtype=torch.float32, device=x.device)
    partials_kernel[(n_partials,)](x, partials, x.numel(), BLOCK=BLOCK)
    return partials.sum()
