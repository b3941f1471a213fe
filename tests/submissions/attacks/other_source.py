"""inconclusive: the kernel's code is honest, and the source that is interpreted is another.

Attack 6, 62. On the CPU. Twin: controls/kernel_in_a_closure.
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


import linecache


def _source(text, name):
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    return text


_HONEST = """def _copy(source_ptr, target_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target_ptr + offsets, tl.load(source_ptr + offsets, mask=offsets < n), mask=offsets < n)
"""
_OTHER = _HONEST.replace("    offsets = tl.prog", "    work()\n    offsets = tl.prog")
space = globals()
exec(compile(_HONEST, "<kernels>", "exec"), space)
_source(_OTHER, "<kernels>")
_copy = triton.jit(_copy)


def vector_add(x, y):
    z = torch.empty_like(x)
    target = torch.empty_like(x)
    held[:] = [(x, y, z)]
    _copy[(triton.cdiv(x.numel(), 1024),)](z, target, x.numel(), BLOCK=1024)
    return target
