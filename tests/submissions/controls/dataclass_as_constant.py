"""A frozen dataclass as compile-time argument, and a function of compile-time numbers that looks into a table."""

import dataclasses

import torch
import triton
import triton.language as tl

BLOCKS = {"narrow": 256, "wide": 1024}


@dataclasses.dataclass(frozen=True, slots=True)
class Tuning:
    kind: str
    warps: int = 4

    def grid(self, n):
        return (triton.cdiv(n, BLOCKS[self.kind]),)


@triton.constexpr_function
def block_of(kind):
    return BLOCKS[kind]


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, TUNING: tl.constexpr):
    BLOCK: tl.constexpr = block_of(TUNING.kind)
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(
        z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside), mask=inside
    )


def vector_add(x, y):
    z = torch.empty_like(x)
    tuning = Tuning("narrow" if x.numel() < 4096 else "wide")
    _add[tuning.grid(x.numel())](x, y, z, x.numel(), TUNING=tuning, num_warps=tuning.warps)
    return z
