"""fail: race: load of tail_ptr: two arguments are views of one tensor, and overlap."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, tail_ptr, edge_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, total, mask=inside)  # there
    # The last element of z, under another name.
    last = tl.load(tail_ptr + 99, mask=pid == 7, other=0.0)
    other = tl.load(tail_ptr, mask=pid == 7, other=0.0)  # here
    tl.store(edge_ptr + pid, last + other)


def vector_add(x, y):
    z, edge = torch.empty_like(x), torch.empty(8, dtype=x.dtype, device=x.device)
    # 896 is where the last block begins: element 850 is the one's before it.
    add_kernel[(8,)](x, y, z, z[850:], edge, x.numel(), BLOCK=128)
    return z
