"""global_sum.full_blocks fail: partial sums are made on a stream of their own, and the last kernel does not wait for it.

A replay launches one kernel after the other, so its values are right.
Attack 1. Twin: timing/control_joined_side_stream.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def partial_kernel(x_ptr, partial_ptr, n, TILES, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0).to(tl.int64) * TILES
    for tile in range(TILES):
        offsets = (first + tile) * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
    tl.store(partial_ptr + tl.program_id(0), tl.sum(total, 0))


@triton.jit
def total_kernel(partial_ptr, s_ptr, count, ROOM: tl.constexpr):
    places = tl.arange(0, ROOM)
    tl.store(s_ptr, tl.sum(tl.load(partial_ptr + places, mask=places < count, other=0.0), 0))


def global_sum(x):
    n = x.numel()
    tiles = triton.cdiv(n, 512 * 1024)
    count = triton.cdiv(n, tiles * 1024)
    partial = torch.empty(count, dtype=torch.float32, device=x.device)
    s = torch.empty((), dtype=torch.float32, device=x.device)
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        partial_kernel[(count,)](x, partial, n, tiles, BLOCK=1024)
    total_kernel[(1,)](partial, s, count, ROOM=512)
    return s
