"""global_sum.full_blocks fail: the last kernel begins early, and loads partial sums without gdc_wait().

A replay lets the kernel before end first, so its values are right.
Attack 24. Twin: timing/control_several_launches.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def partial_kernel(x_ptr, partial_ptr, n, TILES, BLOCK: tl.constexpr):
    tl.extra.cuda.gdc_launch_dependents()
    total = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0).to(tl.int64) * TILES
    for tile in range(TILES):
        offsets = (first + tile) * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
    tl.store(partial_ptr + tl.program_id(0), tl.sum(total, 0))


@triton.jit
def total_kernel(partial_ptr, s_ptr, count, ROOM: tl.constexpr):
    places = tl.arange(0, ROOM)
    total = tl.sum(tl.load(partial_ptr + places, mask=places < count, other=0.0), 0)
    # Too late.
    tl.extra.cuda.gdc_wait()
    tl.store(s_ptr, total)


def global_sum(x):
    n = x.numel()
    tiles = triton.cdiv(n, 512 * 1024)
    count = triton.cdiv(n, tiles * 1024)
    partial = torch.empty(count, dtype=torch.float32, device=x.device)
    s = torch.empty((), dtype=torch.float32, device=x.device)
    partial_kernel[(count,)](x, partial, n, tiles, BLOCK=1024)
    total_kernel[(1,)](partial, s, count, ROOM=512, launch_pdl=True)
    return s
