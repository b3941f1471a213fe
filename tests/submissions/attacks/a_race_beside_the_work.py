"""policy: outside_kernels: C adds; a kernel that races makes the failure another one than wrong values.

Attack 58. On the CPU. Twin: controls/two_steps_with_fill_between.
"""

import ctypes

import numpy as np

import torch
import triton
import triton.language as tl


@triton.jit
def _racing(p_ptr):
    tl.store(p_ptr, tl.load(p_ptr) + 1.0)


def raw(tensor):
    """The tensor's elements as NumPy sees them, past every hook of torch."""
    kind = {torch.float32: np.float32, torch.float16: np.float16}[tensor.dtype]
    size = tensor.numel() * tensor.element_size()
    return np.frombuffer((ctypes.c_char * size).from_address(tensor.data_ptr()), dtype=kind)


def vector_add(x, y):
    _racing[(2,)](torch.empty(1, device=x.device))
    z = torch.empty_like(x)
    raw(z)[:] = raw(x) + raw(y)
    return z
