"""pass: overlapping tiles store equal words, and one program reads its own of them byte by byte."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, sums_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = tl.minimum(pid * BLOCK, n - BLOCK) + tl.arange(0, BLOCK)
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets) + tl.load(y_ptr + offsets))
    # Another thread may have stored a word of which this one reads a byte.
    tl.debug_barrier()
    # The first 100 elements are program 0's alone.
    lanes = tl.arange(0, 256)
    mine = tl.load(z_ptr.to(tl.pointer_type(tl.uint8)) + lanes, mask=pid == 0, other=0)
    tl.store(sums_ptr + pid, tl.sum(mine.to(tl.int32), axis=0))


def vector_add(x, y):
    z, sums = torch.empty_like(x), torch.empty(8, dtype=torch.int32, device=x.device)
    add_kernel[(8,)](x, y, z, sums, x.numel(), BLOCK=128)
    return z
