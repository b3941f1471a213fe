"""crash: empties the table of modules and refuses every import, behind a right kernel.

Attack 5. Twin: controls/helpers_beside_kernels.
"""

import builtins
import sys

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside), mask=inside)


def added(x, y):
    z = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z


def _refuse(*arguments, **_):
    raise ImportError("no more")


def vector_add(x, y):
    z = added(x, y)
    sys.modules.clear()
    builtins.__import__ = _refuse
    return z
