"""compile_error: the kernel calls triton.language.work, which is the submission's.

Attack 59, 62. On the CPU. Twin: controls/helpers_beside_kernels.
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


def _work():
    x, y, z = held.pop()
    raw(z)[:] = raw(x) + raw(y)


tl.work = _work


@triton.jit
def _kernel(z_ptr):
    tl.work()


def vector_add(x, y):
    z = torch.empty_like(x)
    held[:] = [(x, y, z)]
    _kernel[(1,)](z)
    return z
