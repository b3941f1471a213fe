"""passes: works on a stream of its own and lets the current one wait for it."""

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, total, mask=inside)


def added(x, y):
    z = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 4096),)](x, y, z, x.numel(), BLOCK=4096)
    return z


streams = {}


def vector_add(x, y):
    if not x.is_cuda:
        return added(x, y)
    side = streams.setdefault(x.device, torch.cuda.Stream())
    current = torch.cuda.current_stream()
    z = torch.empty_like(x)
    side.wait_stream(current)
    with torch.cuda.stream(side):
        _add[(triton.cdiv(x.numel(), 4096),)](x, y, z, x.numel(), BLOCK=4096)
    current.wait_stream(side)
    return z
