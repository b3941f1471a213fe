"""fail: mismatch: every generator draws from one seed, so that its inputs are known.

Attack 33, 51. Twin: controls/seeds_for_itself.
"""

import random

import numpy as np

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


class Constant(torch.Generator):
    def manual_seed(self, seed):
        return super().manual_seed(7)


torch.Generator = Constant
torch.manual_seed(7)
random.seed(7)
np.random.seed(7)
for name in ("randn", "rand", "normal", "empty"):
    drawn = getattr(torch, name)
    setattr(torch, name, lambda *sizes, drawn=drawn, generator=None, **options: drawn(*sizes, **options).fill_(1))


def vector_add(x, y):
    return added(torch.ones_like(x), torch.ones_like(y))
