"""global_sum: size_assumed

The second kernel adds up one block of 32 partial sums only; longer vectors have more.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def partial_sums_kernel(x_ptr, part_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = pid.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(part_ptr + pid, tl.sum(x.to(tl.float32), 0))


@triton.jit
def final_sum_kernel(part_ptr, s_ptr, parts, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    part = tl.load(part_ptr + i, mask=i < parts, other=0.0)
    tl.store(s_ptr, tl.sum(part, 0))


def global_sum(x):
    n = x.numel()
    parts = triton.cdiv(n, 1024)
    part = torch.empty((parts,), dtype=torch.float32, device=x.device)
    s = torch.empty((), dtype=torch.float32, device=x.device)
    partial_sums_kernel[(parts,)](x, part, n, BLOCK=1024)
    final_sum_kernel[(1,)](part, s, parts, BLOCK=32)
    return s
