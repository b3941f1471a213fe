"""The tuning is a frozen dataclass, chosen from a table."""

import dataclasses

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(
        z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside), mask=inside
    )


def added(x, y):
    z = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z


@dataclasses.dataclass(frozen=True)
class Tuning:
    block: int
    warps: int = 4

    def launch(self, kernel, x, y, z):
        n = x.numel()
        kernel[(triton.cdiv(n, self.block),)](x, y, z, n, BLOCK=self.block, num_warps=self.warps)


TUNINGS = {"short": Tuning(256, 2), "long": Tuning(1024)}


def vector_add(x, y):
    z = torch.empty_like(x)
    TUNINGS["short" if x.numel() < 4096 else "long"].launch(_add, x, y, z)
    return z
