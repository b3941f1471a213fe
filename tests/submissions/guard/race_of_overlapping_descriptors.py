"""fail: race: store of z: two programs store one row through a descriptor."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def add_kernel(x, y, z, BLOCK_M: tl.constexpr):
    row = tl.program_id(0) * (BLOCK_M - 1)
    total = x.load([row, 0]) + y.load([row, 0])
    # The row that two tiles share gets its value from the second of them only.
    owned = tl.arange(0, BLOCK_M)[:, None] < BLOCK_M - 1
    z.store([row, 0], tl.where(owned, total, 0.0))  # here and there


def vector_add(x, y):
    rows = torch.zeros((25, 64), dtype=x.dtype, device=x.device), torch.zeros((25, 64), dtype=x.dtype, device=x.device)
    for padded, flat in zip(rows, (x, y)):
        padded[:, :40].copy_(flat.view(25, 40))
    z = torch.empty((25, 64), dtype=x.dtype, device=x.device)
    add_kernel[(4,)](*(TensorDescriptor(one, [25, 64], [64, 1], [8, 64]) for one in (*rows, z)), BLOCK_M=8)
    return z[:, :40].reshape(-1)
