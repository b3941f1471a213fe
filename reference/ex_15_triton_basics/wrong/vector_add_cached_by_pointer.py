"""vector_add.fresh fail: results are remembered by data pointer, so new values in the same memory go unseen.

Cause: remembered_result

Attack 28. Twin: ex_15_triton_basics/honest/persistent.
"""

import torch
import triton
import triton.language as tl

BLOCK = 1024

_results: dict[tuple[object, ...], torch.Tensor] = {}


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, x + y, mask=mask)


def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    key = (x.data_ptr(), y.data_ptr(), x.numel(), x.dtype)
    if key not in _results:
        z = torch.empty_like(x)
        add_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, z, x.numel(), BLOCK=BLOCK)
        _results[key] = z
    return _results[key].clone()
