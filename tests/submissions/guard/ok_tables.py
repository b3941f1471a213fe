"""pass: pages through an int32 table, some of them shared, unused entries -1 and masked."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(pages_ptr, table_ptr, y_ptr, z_ptr, n, entries, PAGE: tl.constexpr):
    block = tl.program_id(0)
    page = tl.load(table_ptr + block, mask=block < entries, other=-1).to(tl.int64)
    lanes = tl.arange(0, PAGE)
    offsets = block * PAGE + lanes
    x = tl.load(pages_ptr + page * PAGE + lanes, mask=(page >= 0) & (offsets < n), other=0.0)
    y = tl.load(y_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(z_ptr + offsets, x + y, mask=offsets < n)


def vector_add(x, y):
    pages = torch.full((9, 128), float("nan"), dtype=x.dtype, device=x.device)
    order = [3, 0, 7, 1, 8, 2, 6, 4]
    for block, page in enumerate(order):
        part = x[block * 128 : (block + 1) * 128]
        pages[page, : part.numel()].copy_(part)
    table = torch.tensor([*order, -1, -1], dtype=torch.int32, device=x.device)
    z = torch.empty_like(x)
    add_kernel[(9,)](pages, table, y, z, x.numel(), table.numel(), PAGE=128)
    return z
