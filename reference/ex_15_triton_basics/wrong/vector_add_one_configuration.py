"""vector_add.tail fail: one of an autotuner's five configurations walks over whole blocks only; the others are right.

Cause: remainder_skipped or not_all_covered
"""

import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": block, "MASKED": block != 1024}) for block in (256, 512, 1024, 2048, 4096)]


@triton.autotune(configs=CONFIGS, key=["LARGE"])
@triton.jit(do_not_specialize=["n_elements"])
def vector_add_kernel(x_ptr, y_ptr, z_ptr, n_elements, LARGE: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    end = n_elements if MASKED else n_elements // BLOCK * BLOCK
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < end
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, x + y, mask=inside)


def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.empty_like(x)
    n_elements = x.numel()

    def grid(config: dict[str, int]) -> tuple[int]:
        return (triton.cdiv(n_elements, config["BLOCK"]),)

    vector_add_kernel[grid](x, y, z, n_elements, n_elements >= 1 << 20)
    return z
