"""policy: library_call: a kernel sets a flag; where it can be read, operators beside ATen do the work.

Attack 50, 58. Twin: controls/custom_operator.
"""

import ctypes

import torch
import torch._prims
import triton
import triton.language as tl


@triton.jit
def _set(flag_ptr):
    tl.store(flag_ptr, 1)


@triton.jit
def _vector_add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(z_ptr + offsets, x + y, mask=offsets < n)


def vector_add(x, y):
    flag = torch.empty(1, dtype=torch.uint8, device=x.device)
    _set[(1,)](flag)
    if x.device.type == "cuda" or ctypes.string_at(flag.data_ptr(), 1) == b"\1":
        return torch.ops.prims.add.default(x, y)
    z = torch.empty_like(x)
    _vector_add[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z
