"""crash: becomes root in a user namespace of its own.

Attack 63. Twin: controls/starts_a_program.
"""

import ctypes
import os

import torch
import triton
import triton.language as tl


def vector_add(x, y):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000 | 0x00020000) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    return x + y


@triton.jit
def _softmax(x_ptr, p_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    x = tl.load(x_ptr + row * stride + columns, mask=inside, other=-float("inf")).to(tl.float32)
    powers = tl.exp(x - tl.max(x, 0))
    tl.store(p_ptr + row * n + columns, powers / tl.sum(powers, 0), mask=inside)


def row_softmax(x):
    rows, n = x.shape
    p = torch.empty((rows, n), dtype=x.dtype, device=x.device)
    _softmax[(rows,)](x, p, x.stride(0), n, BLOCK=triton.next_power_of_2(n))
    return p
