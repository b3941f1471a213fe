"""fused_multiply_add.tail fail: the length prunes the configuration without a mask, and the key lacks the length.

Cause: missing_mask
"""

import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": 1024, "MASKED": masked}) for masked in (False, True)]


def fitting(configs, named, **others):
    """Leave out the configuration that does not fit the length."""
    whole = named["n_elements"] % 1024 == 0
    return [one for one in configs if one.kwargs["MASKED"] != whole]


@triton.autotune(CONFIGS, key=[], prune_configs_by={"early_config_prune": fitting})
@triton.jit
def multiply_add_kernel(x_ptr, y_ptr, z_ptr, out_ptr, n_elements, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = (offsets < n_elements) | (not MASKED)
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    y = tl.load(y_ptr + offsets, mask=mask).to(tl.float32)
    z = tl.load(z_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(out_ptr + offsets, x * y + z, mask=mask)


def fused_multiply_add(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), 1024),)
    multiply_add_kernel[grid](x, y, z, out, x.numel())
    return out
