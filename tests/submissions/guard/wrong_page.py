"""fail: out_of_bounds: load of pages_ptr: the table's unused entries are -1, and one is followed."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(pages_ptr, table_ptr, y_ptr, z_ptr, n, PAGE: tl.constexpr):
    block = tl.program_id(0)
    page = tl.load(table_ptr + block).to(tl.int64)
    lanes = tl.arange(0, PAGE)
    offsets = block * PAGE + lanes
    x = tl.load(pages_ptr + page * PAGE + lanes)  # here
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(z_ptr + offsets, x + y, mask=offsets < n)


def vector_add(x, y):
    pages = torch.zeros((8, 128), dtype=x.dtype, device=x.device)
    pages.view(-1)[: x.numel()].copy_(x)
    table = torch.tensor([0, 1, 2, 3, 4, 5, 6, 7, -1], dtype=torch.int32, device=x.device)
    z = torch.empty_like(x)
    add_kernel[(9,)](pages, table, y, z, x.numel(), PAGE=128)
    return z
