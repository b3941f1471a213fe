"""fused_multiply_add.launches fail: one kernel multiplies and a second one adds, with the product in memory between.

Cause: several_launches
"""

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def multiply_kernel(x_ptr, y_ptr, product_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    y = tl.load(y_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(product_ptr + offsets, x * y, mask=mask)


@triton.jit
def add_kernel(product_ptr, z_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    product = tl.load(product_ptr + offsets, mask=mask)
    z = tl.load(z_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(out_ptr + offsets, product + z, mask=mask)


def fused_multiply_add(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), BLOCK),)
    product = torch.empty_like(x, dtype=torch.float32)
    multiply_kernel[grid](x, y, product, x.numel(), BLOCK=BLOCK)
    add_kernel[grid](product, z, out, x.numel(), BLOCK=BLOCK)
    return out
