"""vector_add.slices fail: it reads from the start of the storage, which is not where a slice starts.

Cause: start_ignored
"""

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, x + y, mask=mask)


def _flat(x: torch.Tensor) -> torch.Tensor:
    """The elements of x side by side; the mistake: as_strided counts its offset from the storage, not from x."""
    return torch.as_strided(x, (x.numel(),), (1,), storage_offset=0)


def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), BLOCK),)](_flat(x), _flat(y), z, x.numel(), BLOCK=BLOCK)
    return z
