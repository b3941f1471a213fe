"""global_sum.slices fail: it reads from the start of the storage, which is not where a slice starts.

Cause: start_ignored
"""

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def sum_kernel(x_ptr, s_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n_elements, other=0.0).to(tl.float32)
    tl.atomic_add(s_ptr, tl.sum(x, axis=0))


def global_sum(x: torch.Tensor) -> torch.Tensor:
    s = torch.zeros((), dtype=torch.float32, device=x.device)
    # The mistake: as_strided counts its offset from the start of the storage, not from x.
    flat = torch.as_strided(x, (x.numel(),), (1,), storage_offset=0)
    sum_kernel[(triton.cdiv(x.numel(), BLOCK),)](flat, s, x.numel(), BLOCK=BLOCK)
    return s
