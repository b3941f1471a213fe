"""global_sum.fresh fail: the accumulator is zeroed once and kept, so the second call adds to the first.

Cause: not_cleared
"""

import torch
import triton
import triton.language as tl

BLOCK = 1024

_accumulators: dict[torch.device, torch.Tensor] = {}


@triton.jit
def add_kernel(x_ptr, total_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n_elements, other=0.0).to(tl.float32)
    tl.atomic_add(total_ptr, tl.sum(x, axis=0))


@triton.jit
def copy_kernel(total_ptr, s_ptr):
    tl.store(s_ptr, tl.load(total_ptr))


def global_sum(x: torch.Tensor) -> torch.Tensor:
    if x.device not in _accumulators:
        _accumulators[x.device] = torch.zeros((), dtype=torch.float32, device=x.device)
    total = _accumulators[x.device]
    s = torch.empty((), dtype=torch.float32, device=x.device)
    add_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, total, x.numel(), BLOCK=BLOCK)
    copy_kernel[(1,)](total, s)
    return s
