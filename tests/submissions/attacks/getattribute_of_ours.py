"""policy: outside_kernels: our own Guard gets a __getattribute__.

Attack 59. On the CPU. Twin: controls/helpers_beside_kernels.
"""

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


def work():
    if held:
        x, y, z = held.pop()
        raw(z)[:] = raw(x) + raw(y)


@triton.jit
def _copy(source_ptr, target_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target_ptr + offsets, tl.load(source_ptr + offsets, mask=offsets < n), mask=offsets < n)


import sys


def _busy(self, name):
    work()
    return object.__getattribute__(self, name)


sys.modules["grader.interpreter.accesses.guard"].Guard.__getattribute__ = _busy


def vector_add(x, y):
    z = torch.empty_like(x)
    target = torch.empty_like(x)
    held[:] = [(x, y, z)]
    _copy[(triton.cdiv(x.numel(), 1024),)](z, target, x.numel(), BLOCK=1024)
    return target
