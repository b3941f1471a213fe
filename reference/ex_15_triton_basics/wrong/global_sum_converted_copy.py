"""global_sum.traffic fail: the vector is first written out as float32 and then read again to be summed.

Cause: through_memory
"""

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def convert_kernel(x_ptr, copy_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    tl.store(copy_ptr + offsets, tl.load(x_ptr + offsets, mask=mask).to(tl.float32), mask=mask)


@triton.jit
def sum_kernel(x_ptr, s_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n_elements, other=0.0).to(tl.float32)
    tl.atomic_add(s_ptr, tl.sum(x, axis=0))


def global_sum(x: torch.Tensor) -> torch.Tensor:
    s = torch.zeros((), dtype=torch.float32, device=x.device)
    grid = (triton.cdiv(x.numel(), BLOCK),)
    copy = torch.empty_like(x, dtype=torch.float32)
    convert_kernel[grid](x, copy, x.numel(), BLOCK=BLOCK)
    sum_kernel[grid](copy, s, x.numel(), BLOCK=BLOCK)
    return s
