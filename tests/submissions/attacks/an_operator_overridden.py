"""policy: outside_kernels: clone(), as torch.library has it from here on, adds.

Attack 56, 61. On the CPU. Twin: controls/custom_operator.
"""

import ctypes

import numpy as np

import torch
import triton
import triton.language as tl


@triton.jit
def _copy(source_ptr, target_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target_ptr + offsets, tl.load(source_ptr + offsets, mask=offsets < n), mask=offsets < n)


def copied(source):
    target = torch.empty_like(source)
    _copy[(triton.cdiv(source.numel(), 1024),)](source, target, source.numel(), BLOCK=1024)
    return target


def raw(tensor):
    """The tensor's elements as NumPy sees them, past every hook of torch."""
    kind = {torch.float32: np.float32, torch.float16: np.float16}[tensor.dtype]
    size = tensor.numel() * tensor.element_size()
    return np.frombuffer((ctypes.c_char * size).from_address(tensor.data_ptr()), dtype=kind)


held = []
library = torch.library.Library("aten", "IMPL")


def _clone(source, *, memory_format=None):
    z = torch.empty_strided(source.shape, source.stride(), dtype=source.dtype)
    if held and source.dtype == held[0].dtype:
        x, y = held
        raw(z)[:] = raw(x) + raw(y)
        return z
    return z.copy_(source)


library.impl("clone", _clone, "CPU")


def vector_add(x, y):
    copied(x)
    held[:] = [x, y]
    z = x.clone()
    held.clear()
    return z
