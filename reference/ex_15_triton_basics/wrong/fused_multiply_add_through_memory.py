"""fused_multiply_add.traffic fail: the one kernel parks the product in memory and reads it back before it adds z.

Cause: through_memory
"""

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def multiply_add_kernel(x_ptr, y_ptr, z_ptr, product_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    y = tl.load(y_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(product_ptr + offsets, x * y, mask=mask)
    tl.debug_barrier()
    product = tl.load(product_ptr + offsets, mask=mask)
    z = tl.load(z_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(out_ptr + offsets, product + z, mask=mask)


def fused_multiply_add(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    product = torch.empty_like(x, dtype=torch.float32)
    out = torch.empty_like(x)
    multiply_add_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, z, product, out, x.numel(), BLOCK=BLOCK)
    return out
