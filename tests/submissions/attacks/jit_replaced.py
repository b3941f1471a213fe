"""policy: no_kernel: triton.jit is a decorator that lets torch add.

Attack 5, 71. Twin: controls/kernel_in_a_closure.
"""

import torch
import triton
import triton.language as tl


class Kernel:
    def __init__(self, function):
        self.function = function

    def __getitem__(self, grid):
        return lambda x, y, z, *_, **__: torch.add(x, y, out=z)


triton.jit = Kernel


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets) + tl.load(y_ptr + offsets))


def vector_add(x, y):
    z = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z
