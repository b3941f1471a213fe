"""global_sum.full_blocks fail: the kernel stores zero instead of the sum.

Cause: zeros

Attack 43. Twin: ex_15_triton_basics/honest/strided_sum.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def sum_kernel(s_ptr):
    tl.store(s_ptr, 0.0)


def global_sum(x: torch.Tensor) -> torch.Tensor:
    s = torch.empty((), dtype=torch.float32, device=x.device)
    sum_kernel[(1,)](s)
    return s
