"""policy: library_call: an exception in the kernel leaves frames whose locals hold the inputs.

Attack 5, 41. On the CPU. Twin: controls/reraises.
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


@triton.jit
def _tell(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.static_assert(BLOCK == 7)
    tl.store(x_ptr + offsets, x, mask=offsets < n)


def told(source):
    n = source.numel()
    try:
        _tell[(1,)](source, n, BLOCK=triton.next_power_of_2(n))
    except Exception as raised:
        while raised is not None:
            trace = raised.__traceback__
            while trace:
                value = trace.tb_frame.f_locals.get("x")
                if isinstance(value, tl.tensor):
                    return value.handle.data.reshape(-1)[:n]
                trace = trace.tb_next
            raised = raised.__cause__ or raised.__context__
    return None


def vector_add(x, y):
    z = torch.empty_like(x)
    raw(z)[:] = told(x) + told(y)
    target = torch.empty_like(x)
    _copy[(triton.cdiv(x.numel(), 1024),)](z, target, x.numel(), BLOCK=1024)
    return target
