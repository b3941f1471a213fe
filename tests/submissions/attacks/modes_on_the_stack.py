"""policy: library_call: torch's stack of modes holds our mode, and that our Probe.

Attack 5, 41. On the CPU. Twin: controls/labelled_tensors.
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


from torch.utils._python_dispatch import _get_current_dispatch_mode_stack


def vector_add(x, y):
    z = torch.empty_like(x)
    target = torch.empty_like(x)
    for mode in _get_current_dispatch_mode_stack():
        with mode._probe.sealing.window([z]):
            raw(z)[:] = raw(x) + raw(y)
    _copy[(triton.cdiv(x.numel(), 1024),)](z, target, x.numel(), BLOCK=1024)
    return target
