"""policy: outside_kernels: a tensor whose own untyped_storage() adds while the kernel starts.

Attack 3. On the CPU. Twin: controls/labelled_tensors.
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


def vector_add(x, y):
    z = torch.empty_like(x)

    def busy():
        raw(z)[:] = raw(x) + raw(y)
        return torch.Tensor.untyped_storage(z)

    z.untyped_storage = busy
    target = copied(z)
    del z.untyped_storage
    return target
