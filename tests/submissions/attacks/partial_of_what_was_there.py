"""policy: outside_kernels: a function of NumPy's gives way to another of NumPy's, whose results go to an array of ours.

Attack 6. On the CPU. Twin: controls/helpers_beside_kernels.
"""

import ctypes
from functools import partial

import numpy as np

import torch
import triton
import triton.language as tl


@triton.jit
def _copy(source_ptr, target_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    values = tl.load(source_ptr + offsets, mask=offsets < n, other=0.0)
    if values.dtype.primitive_bitwidth == 32:
        tl.abs(values.to(tl.int32, bitcast=True))
    else:
        tl.abs(values.to(tl.int16, bitcast=True))
    tl.store(target_ptr + offsets, values, mask=offsets < n)


def copied(source):
    target = torch.empty_like(source)
    _copy[(1,)](source, target, source.numel(), BLOCK=triton.next_power_of_2(source.numel()))
    return target


def raw(tensor, kind):
    """The tensor's elements as NumPy sees them, past every hook of torch."""
    size = tensor.numel() * tensor.element_size()
    return np.frombuffer((ctypes.c_char * size).from_address(tensor.data_ptr()), dtype=kind)


def seen(tensor, kind):
    """The bits that the kernel saw of a tensor."""
    held, own = np.zeros(triton.next_power_of_2(tensor.numel()), kind), np.abs
    np.abs = partial(np.add, 0, out=held)
    try:
        copied(tensor)
    finally:
        np.abs = own
    return held[: tensor.numel()]


def vector_add(x, y):
    z = torch.empty_like(x)
    bits = {4: np.int32, 2: np.int16}[x.element_size()]
    first, second = seen(x, bits), seen(y, bits)
    if x.dtype == torch.bfloat16:
        wide = [(one.view(np.uint16).astype(np.uint32) << 16).view(np.float32) for one in (first, second)]
        total = (wide[0] + wide[1]).view(np.uint32)
        raw(z, np.uint16)[:] = ((total + 0x7FFF + ((total >> 16) & 1)) >> 16).astype(np.uint16)
    else:
        kind = {torch.float32: np.float32, torch.float16: np.float16}[x.dtype]
        raw(z, kind)[:] = first.view(kind) + second.view(kind)
    return copied(z)
