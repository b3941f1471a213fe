"""fused_multiply_add.slices fail: addresses are rounded down to 16 bytes, so a slice is read from before its start.

Cause: start_ignored
"""

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def aligned(ptr):
    """The mistake: rounding down makes the access aligned, and moves it."""
    return (ptr.to(tl.int64, bitcast=True) // 16 * 16).to(ptr.dtype, bitcast=True)


@triton.jit
def multiply_add_kernel(x_ptr, y_ptr, z_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(aligned(x_ptr) + offsets, mask=mask).to(tl.float32)
    y = tl.load(aligned(y_ptr) + offsets, mask=mask).to(tl.float32)
    z = tl.load(aligned(z_ptr) + offsets, mask=mask).to(tl.float32)
    tl.store(out_ptr + offsets, x * y + z, mask=mask)


def fused_multiply_add(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    multiply_add_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, z, out, x.numel(), BLOCK=BLOCK)
    return out
