"""policy: no_kernel: the method that runs kernels lets torch add instead.

Attack 5, 6. Twin: controls/kernel_in_a_closure.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(
        z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside), mask=inside
    )


def added(x, y):
    z = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z


def vector_add(x, y):
    z = torch.empty_like(x)
    kind = type(_add)
    run = kind.run
    kind.run = lambda kernel, x, y, z, *_, **__: torch.add(x, y, out=z)
    _add[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    kind.run = run
    return z
