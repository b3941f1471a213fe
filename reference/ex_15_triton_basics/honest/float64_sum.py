"""A sum accumulated in float64, more precisely than asked, and rounded to float32 by its second kernel."""

import torch
import triton
import triton.language as tl

BLOCK = 4096


@triton.jit
def add_kernel(x_ptr, total_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n_elements, other=0.0).to(tl.float64)
    tl.atomic_add(total_ptr, tl.sum(x, axis=0))


@triton.jit
def round_kernel(total_ptr, s_ptr):
    tl.store(s_ptr, tl.load(total_ptr).to(tl.float32))


def global_sum(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros((), dtype=torch.float64, device=x.device)
    s = torch.empty((), dtype=torch.float32, device=x.device)
    add_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, total, x.numel(), BLOCK=BLOCK, num_warps=8)
    round_kernel[(1,)](total, s)
    return s
