"""policy: outside_kernels: a kernel stores its input to an address that came as a number; NumPy adds there.

Attack 58. On the CPU. Twin: controls/view_of_its_own_pool.
"""

import numpy as np

import torch
import triton
import triton.language as tl


@triton.jit
def _leak(source_ptr, address, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    target_ptr = address.to(tl.pointer_type(source_ptr.dtype.element_ty))
    tl.store(target_ptr + offsets, tl.load(source_ptr + offsets, mask=offsets < n), mask=offsets < n)


def leaked(source):
    held = np.zeros(source.numel() + 8, dtype={torch.float32: np.float32, torch.float16: np.float16}[source.dtype])
    grid = (triton.cdiv(source.numel(), 1024),)
    _leak[grid](source, held.ctypes.data, source.numel(), BLOCK=1024)
    return held[: source.numel()]


def vector_add(x, y):
    return torch.from_numpy(leaked(x) + leaked(y))
