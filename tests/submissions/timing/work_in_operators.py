"""gains nothing: torch copies one input into the result; the kernel only has to add the other.

Attack 35, 56. Twin: controls/copies_its_inputs.
"""

import triton
import triton.language as tl


@triton.jit
def _add_onto(y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(z_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, total, mask=inside)


def vector_add(x, y):
    z = x.clone()
    _add_onto[(triton.cdiv(x.numel(), 4096),)](y, z, x.numel(), BLOCK=4096)
    return z
