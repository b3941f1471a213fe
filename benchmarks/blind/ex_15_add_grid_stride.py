"""vector_add: not_all_covered

The step of the grid-stride loop is one block longer than the programs cover, so a block is left out in every turn.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def add_loop_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    """Grid-stride loop: a fixed number of programs for any length."""
    first = tl.program_id(0).to(tl.int64) * BLOCK
    step = (tl.num_programs(0) + 1) * BLOCK
    lanes = tl.arange(0, BLOCK)
    for start in range(first, n, step):
        i = start + lanes
        inside = i < n
        z = tl.load(x_ptr + i, mask=inside, other=0.0) + tl.load(y_ptr + i, mask=inside, other=0.0)
        tl.store(z_ptr + i, z, mask=inside)


def vector_add(x, y):
    n = x.numel()
    z = torch.empty(n, dtype=x.dtype, device=x.device)
    add_loop_kernel[(min(triton.cdiv(n, 512), 16 if not x.is_cuda else 1024),)](x, y, z, n, BLOCK=512)
    return z
