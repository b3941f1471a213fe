"""fail: out_of_bounds: store of z: the launcher's descriptor says 26 rows, and there are 25."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def add_kernel(x, y, z, BLOCK_M: tl.constexpr):
    row = tl.program_id(0) * BLOCK_M
    z.store([row, 0], x.load([row, 0]) + y.load([row, 0]))  # here


def vector_add(x, y):
    rows = torch.zeros((25, 64), dtype=x.dtype, device=x.device), torch.zeros((25, 64), dtype=x.dtype, device=x.device)
    for padded, flat in zip(rows, (x, y)):
        padded[:, :40].copy_(flat.view(25, 40))
    z = torch.empty((25, 64), dtype=x.dtype, device=x.device)
    described = [TensorDescriptor(one, [25, 64], [64, 1], [8, 64]) for one in rows]
    add_kernel[(4,)](*described, TensorDescriptor(z, [26, 64], [64, 1], [8, 64]), BLOCK_M=8)
    return z[:, :40].reshape(-1)
