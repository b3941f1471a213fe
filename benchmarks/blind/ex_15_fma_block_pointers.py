"""fused_multiply_add: operand_mixed_up

The third block pointer is made of Y, so y is added instead of z.

Needs triton < 3.9: block pointers.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def fma_pointers_kernel(X, Y, Z, OUT, N, BLOCK: tl.constexpr):
    """Block pointers, one per vector."""
    start = tl.program_id(0) * BLOCK
    x = tl.load(tl.make_block_ptr(X, (N,), (1,), (start,), (BLOCK,), (0,)), boundary_check=(0,))
    y = tl.load(tl.make_block_ptr(Y, (N,), (1,), (start,), (BLOCK,), (0,)), boundary_check=(0,))
    z = tl.load(tl.make_block_ptr(Y, (N,), (1,), (start,), (BLOCK,), (0,)), boundary_check=(0,))
    result = x.to(tl.float32) * y.to(tl.float32) + z.to(tl.float32)
    out = tl.make_block_ptr(OUT, (N,), (1,), (start,), (BLOCK,), (0,))
    tl.store(out, result.to(OUT.dtype.element_ty), boundary_check=(0,))


def fused_multiply_add(x, y, z):
    out = torch.empty_like(x)
    N = x.numel()
    fma_pointers_kernel[(triton.cdiv(N, 512),)](x, y, z, out, N, BLOCK=512)
    return out
