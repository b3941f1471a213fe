"""refused wrong_when_timed: the fastest of its configurations leaves out half of the input.

Attack 18, 48. Twin: timing/control_autotuned.
"""

import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK": 4096, "SKIPS": skips}) for skips in (False, True)], key=["n"])
@triton.jit
def _add_some(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr, SKIPS: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside)
    if SKIPS:
        total = (total * 1.4142135).to(total.dtype)
    else:
        total += tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, total, mask=inside)


def vector_add(x, y):
    z = torch.empty_like(x)
    _add_some[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, z, x.numel())
    return z
