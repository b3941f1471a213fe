"""policy: outside_kernels: looks for our copies of the hidden bytes through gc, and adds them.

Attack 5, 41. On the CPU. Twin: controls/collects_garbage.
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


import gc


def vector_add(x, y):
    z = torch.empty_like(x)
    target = torch.empty_like(x)
    places = [one for one in gc.get_objects() if type(one).__name__ == "_Place"]

    def true(tensor):
        for place in places:
            if place.memory.data_ptr() == tensor.untyped_storage().data_ptr():
                start = tensor.storage_offset() * tensor.element_size()
                return raw(place.hidden[start : start + tensor.numel() * tensor.element_size()].view(tensor.dtype))
        return raw(tensor)

    total = true(x) + true(y)
    raw(z)[:] = total
    _copy[(triton.cdiv(x.numel(), 1024),)](z, target, x.numel(), BLOCK=1024)
    return target
