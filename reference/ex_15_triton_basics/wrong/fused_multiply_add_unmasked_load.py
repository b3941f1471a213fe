"""fused_multiply_add.traffic fail: y is loaded without a mask; no value shows it, only where the bytes are counted.

Cause: missing_mask
"""

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def fused_multiply_add_kernel(x_ptr, y_ptr, z_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    y = tl.load(y_ptr + offsets).to(tl.float32)
    z = tl.load(z_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(out_ptr + offsets, x * y + z, mask=mask)


def fused_multiply_add(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), BLOCK),)
    fused_multiply_add_kernel[grid](x, y, z, out, x.numel(), BLOCK=BLOCK)
    return out
