"""One kernel sums each block of the vector, a second one adds up the sums of the blocks."""

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
    sums = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_partials, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        sums += tl.load(partials_ptr + offsets, mask=offsets < n_partials, other=0.0)
    tl.store(s_ptr, tl.sum(sums, axis=0))


def global_sum(x: torch.Tensor) -> torch.Tensor:
    n_partials = triton.cdiv(x.numel(), BLOCK)
    partials = torch.empty(n_partials, dtype=torch.float32, device=x.device)
    s = torch.empty((), dtype=torch.float32, device=x.device)
    partials_kernel[(n_partials,)](x, partials, x.numel(), BLOCK=BLOCK)
    join_kernel[(1,)](partials, s, n_partials, BLOCK=BLOCK)
    return s
