"""passes: keeps scratch memory between calls, and copies every result out of it."""

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


@triton.jit
def _copy(source_ptr, target_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target_ptr + offsets, tl.load(source_ptr + offsets, mask=offsets < n), mask=offsets < n)


workspace = {}


def vector_add(x, y):
    key = x.numel(), x.dtype
    if key not in workspace:
        workspace.clear()
        workspace[key] = torch.empty(x.numel(), dtype=x.dtype, device=x.device)
    scratch, z = workspace[key], torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), 4096),)
    _add[grid](x, y, scratch, x.numel(), BLOCK=4096)
    _copy[grid](scratch, z, x.numel(), BLOCK=4096)
    return z
