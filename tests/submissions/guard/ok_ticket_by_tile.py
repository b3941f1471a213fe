"""pass: a ticket for each tile of a product: the last of its splits adds up the others' partial tiles."""

import torch
import triton
import triton.language as tl


@triton.jit
def split_kernel(x_ptr, y_ptr, parts_ptr, tickets_ptr, z_ptr, n, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    tile, split = tl.program_id(0), tl.program_id(1)
    lanes = tl.arange(0, BLOCK)
    offsets = tile * BLOCK + lanes
    inside = offsets < n
    part = (tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)) / SPLITS
    tl.store(parts_ptr + (split * tl.num_programs(0) + tile) * BLOCK + lanes, part)
    drawn = tl.atomic_add(tickets_ptr + tile, 1, sem="acq_rel")
    if drawn == SPLITS - 1:
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        for other in range(SPLITS):
            total += tl.load(parts_ptr + (other * tl.num_programs(0) + tile) * BLOCK + lanes)
        tl.store(z_ptr + offsets, total, mask=inside)
        tl.atomic_xchg(tickets_ptr + tile, 0)


def vector_add(x, y):
    z = torch.empty_like(x)
    parts = torch.empty((4, 8, 128), dtype=x.dtype, device=x.device)
    tickets = torch.zeros(8, dtype=torch.int32, device=x.device)
    split_kernel[(8, 4)](x, y, parts, tickets, z, x.numel(), SPLITS=4, BLOCK=128)
    return z
