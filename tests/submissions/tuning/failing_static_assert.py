"""pass: the second and the last configuration fail a static assertion, and would be wrong."""

import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": block}) for block in (128, 32, 256, 16)]


@triton.autotune(CONFIGS, key=["n"])
@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK >= 64)
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, total + (BLOCK < 64), mask=inside)


def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.empty_like(x)
    add_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, z, x.numel())
    return z
