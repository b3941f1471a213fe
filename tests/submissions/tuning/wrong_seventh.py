"""fail BLOCK=512, num_warps=8: of eight configurations, the seventh walks over whole blocks only."""

import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": block}, num_warps=warps) for block in (64, 128, 256, 512) for warps in (4, 8)]
CONFIGS[6:] = [
    triton.Config({"BLOCK": 512, "WHOLE": True}, num_warps=8),
    triton.Config({"BLOCK": 1024}, num_warps=8),
]


@triton.autotune(CONFIGS, key=["n"])
@triton.heuristics({"PER_PROGRAM": lambda args: triton.cdiv(triton.cdiv(args["n"], args["BLOCK"]), 2)})
@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, PER_PROGRAM: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr = False):
    end = n // BLOCK * BLOCK if WHOLE else n
    for step in range(PER_PROGRAM):
        offsets = (tl.program_id(0) * PER_PROGRAM + step) * BLOCK + tl.arange(0, BLOCK)
        total = tl.load(x_ptr + offsets, mask=offsets < end) + tl.load(y_ptr + offsets, mask=offsets < end)
        tl.store(z_ptr + offsets, total, mask=offsets < end)


def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.empty_like(x)
    add_kernel[(2,)](x, y, z, x.numel())
    return z
