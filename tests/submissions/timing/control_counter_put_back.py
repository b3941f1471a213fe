"""passes: the last program of a call is found by a counter in memory that is kept, and put back."""

import torch
import triton
import triton.language as tl


@triton.jit
def _add_and_count(x_ptr, y_ptr, z_ptr, count_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, total, mask=inside)
    if tl.atomic_add(count_ptr, 1) == tl.num_programs(0) - 1:
        tl.store(count_ptr, 0)


counters = {}


def vector_add(x, y):
    if x.device not in counters:
        counters[x.device] = torch.zeros(1, dtype=torch.int32, device=x.device)
    z = torch.empty_like(x)
    _add_and_count[(triton.cdiv(x.numel(), 4096),)](x, y, z, counters[x.device], x.numel(), BLOCK=4096)
    return z
