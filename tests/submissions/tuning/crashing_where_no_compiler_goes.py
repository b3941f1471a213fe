"""pass: the first configuration adds blocks of unequal lengths, which crashes in the interpreter and compiles nowhere."""

import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": 256, "OTHER": other}) for other in (128, 256)]


@triton.autotune(CONFIGS, key=["n"])
@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr, OTHER: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    others = tl.program_id(0) * BLOCK + tl.arange(0, OTHER)
    total = tl.load(x_ptr + offsets, mask=offsets < n) + tl.load(y_ptr + others, mask=others < n)
    tl.store(z_ptr + offsets, total, mask=offsets < n)


def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.empty_like(x)
    add_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, z, x.numel())
    return z
