"""pass: the first configuration reads its inputs twice, the second once."""

import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"TIMES": times}, num_warps=warps) for times, warps in ((2, 4), (1, 8))]


@triton.autotune(CONFIGS, key=["n"])
@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, TIMES: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.zeros((BLOCK,), z_ptr.dtype.element_ty)
    for _ in range(TIMES):
        total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, total, mask=inside)


def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 512),)](x, y, z, x.numel(), BLOCK=512)
    return z
