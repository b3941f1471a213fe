"""fused_multiply_add.values fail: the product is rounded to the dtype of the inputs before z is added.

Cause: rounded_intermediate
"""

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def multiply_add_kernel(x_ptr, y_ptr, z_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    y = tl.load(y_ptr + offsets, mask=mask).to(tl.float32)
    z = tl.load(z_ptr + offsets, mask=mask).to(tl.float32)
    product = (x * y).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + offsets, product.to(tl.float32) + z, mask=mask)


def fused_multiply_add(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), BLOCK),)
    # With fusion allowed, the compiler turns rounding, conversion and addition into one float16 fma, which is exact
    # before its only rounding: the mistake would show in the interpreter and not on a GPU.
    multiply_add_kernel[grid](x, y, z, out, x.numel(), BLOCK=BLOCK, enable_fp_fusion=False)
    return out
