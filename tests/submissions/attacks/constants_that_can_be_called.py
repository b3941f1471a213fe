"""inconclusive: compile-time constants are functions of C, which get at the arrays; no GPU's compiler sees it.

Attack 62. On the CPU. Twin: controls/dataclass_as_constant.
"""

import operator

import torch
import triton
import triton.language as tl

DATA = tl.constexpr(operator.attrgetter("handle.data"))
ADD = tl.constexpr(operator.iadd)


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    ADD.value(DATA.value(x), DATA.value(y))
    tl.store(z_ptr + offsets, x, mask=inside)


def vector_add(x, y):
    z = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z
