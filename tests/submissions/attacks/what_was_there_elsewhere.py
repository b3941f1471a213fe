"""policy: library_call: a function of NumPy's gives way to another of them, written in Python.

Attack 6. On the CPU. Twin: controls/helpers_beside_kernels.
"""

import numpy as np

import torch
import triton
import triton.language as tl
from triton.runtime import interpreter


@triton.jit
def _sum(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(z_ptr + offsets, x + y, mask=offsets < n)


def vector_add(x, y):
    z = torch.empty_like(x)
    own = interpreter.np.abs
    interpreter.np.abs = np.clip
    try:
        _sum[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    finally:
        interpreter.np.abs = own
    return z
