"""policy: outside_kernels: Sealing.begin keeps its self while the file is loaded and unsealed calls run.

Attack 5. On the CPU. Twin: controls/logs_calls_of_its_own.
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

_kind = sys.modules["grader.child.sealing"].Sealing
_whole = _kind.window
_mine = []


def _window(self, touched):
    _mine.append(self)
    _kind.window = _whole
    return _whole(self, touched)


_kind.window = _window


def vector_add(x, y):
    z = torch.empty_like(x)
    target = torch.empty_like(x)
    if _mine:
        with _mine[0].window([z]):
            raw(z)[:] = raw(x) + raw(y)
    else:
        raw(z)[:] = raw(x) + raw(y)
    _copy[(triton.cdiv(x.numel(), 1024),)](z, target, x.numel(), BLOCK=1024)
    return target
