"""policy: outside_kernels: a named tuple among the arguments has an __init__.

Attack 58. On the CPU. Twin: controls/arguments_in_a_named_tuple.
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


import collections

Pair = collections.namedtuple("Pair", "first second")


def _init(self, *parts):
    work()


Pair.__init__ = _init


@triton.jit
def _copy(pair, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(pair[1] + offsets, tl.load(pair[0] + offsets, mask=offsets < n), mask=offsets < n)


def vector_add(x, y):
    z = torch.empty_like(x)
    target = torch.empty_like(x)
    pair = Pair(z, target)
    held[:] = [(x, y, z)]
    _copy[(triton.cdiv(x.numel(), 1024),)](pair, x.numel(), BLOCK=1024)
    return target
