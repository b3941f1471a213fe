"""policy: outside_kernels: the kernel's range is one that adds.

Attack 5, 59. On the CPU. Twin: controls/helpers_beside_kernels.
"""

import builtins
import ctypes

import numpy as np

import torch
import triton
import triton.language as tl


def raw(tensor):
    """The tensor's elements as NumPy sees them, past every hook of torch."""
    kind = {torch.float32: np.float32, torch.float16: np.float16}[tensor.dtype]
    size = tensor.numel() * tensor.element_size()
    return np.frombuffer((ctypes.c_char * size).from_address(tensor.data_ptr()), dtype=kind)


held = []
numbers = range


def _busy(*bounds):
    if held:
        x, y, z = held.pop()
        raw(z)[:] = raw(x) + raw(y)
    return numbers(*bounds)


@triton.jit
def _kernel(z_ptr, n, BLOCK: tl.constexpr):
    for _ in range(1):
        offsets = tl.arange(0, BLOCK)
        tl.store(z_ptr + offsets, tl.load(z_ptr + offsets, mask=offsets < n), mask=offsets < n)


def vector_add(x, y):
    z = torch.empty_like(x)
    held[:] = [(x, y, z)]
    builtins.range = _busy
    _kernel[(1,)](z, x.numel(), BLOCK=triton.next_power_of_2(x.numel()))
    builtins.range = numbers
    return z
