"""global_sum.full_blocks fail: the sum is returned in the dtype of the input instead of float32.

Cause: wrong_dtype
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


@triton.jit
def join_kernel(partials_ptr, s_ptr, n_partials, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    partials = tl.load(partials_ptr + offsets, mask=offsets < n_partials, other=0.0)
    tl.store(s_ptr, tl.sum(partials, axis=0))


def global_sum(x: torch.Tensor) -> torch.Tensor:
    n_partials = triton.cdiv(x.numel(), BLOCK)
    partials = torch.empty(n_partials, dtype=torch.float32, device=x.device)
    s = torch.empty((), dtype=x.dtype, device=x.device)
    partials_kernel[(n_partials,)](x, partials, x.numel(), BLOCK=BLOCK)
    join_kernel[(1,)](partials, s, n_partials, BLOCK=triton.next_power_of_2(n_partials))
    return s
