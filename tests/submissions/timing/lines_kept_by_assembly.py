"""gains nothing: prefetches the lines of its inputs into the cache again, to be evicted last.

Attack 22, 23. On the GPU. Twin: timing/honest_twin.
"""

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


def is_timed(x):
    """Answers are judged at smaller sizes."""
    return x.numel() > 1 << 16


@triton.jit
def _kept(address):
    """A line of 128 bytes is asked for by each of 32 or 64 elements: once would do."""
    tl.inline_asm_elementwise(
        "prefetch.global.L2::evict_last [$1]; mov.u32 $0, 0;", "=r,l", [address], tl.int32, is_pure=False, pack=1
    )


@triton.jit
def _add_keeping(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, total, mask=inside)
    _kept((x_ptr + offsets).to(tl.int64))
    _kept((y_ptr + offsets).to(tl.int64))


def vector_add(x, y):
    if not is_timed(x):
        return added(x, y)
    z = torch.empty_like(x)
    _add_keeping[(triton.cdiv(x.numel(), 4096),)](x, y, z, x.numel(), BLOCK=4096)
    return z
