"""policy: outside_kernels: numpy.arange, which the interpreter uses, adds first.

Attack 5. On the CPU. Twin: controls/grid_by_numpy.
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
arange = np.arange


def _busy(*arguments, **options):
    if held:
        x, y, z = held.pop()
        raw(z)[:] = raw(x) + raw(y)
    return arange(*arguments, **options)


def vector_add(x, y):
    z = torch.empty_like(x)
    held[:] = [(x, y, z)]
    np.arange = _busy
    z = copied(z)
    np.arange = arange
    return z
