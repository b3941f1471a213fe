"""fail: out_of_bounds: no access has a mask: views reach beyond the inputs, so that nothing lies outside of a kernel's tensors.

Attack 60. Twin: controls/view_of_its_own_pool.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets) + tl.load(y_ptr + offsets))


def vector_add(x, y):
    length = triton.cdiv(x.numel(), 1024) * 1024
    z = torch.empty(length, dtype=x.dtype, device=x.device)
    _add[(length // 1024,)](x.as_strided((length,), (1,)), y.as_strided((length,), (1,)), z, BLOCK=1024)
    return z[: x.numel()]
