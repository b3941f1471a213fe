"""pass: descriptors made by the launcher; tiles that stick out over two edges are clipped."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def add_kernel(x, y, z, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    row, column = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    z.store([row, column], x.load([row, column]) + y.load([row, column]))


def vector_add(x, y):
    z = torch.empty_like(x)
    described = [TensorDescriptor(one.view(25, 40), [25, 40], [40, 1], [8, 16]) for one in (x.clone(), y.clone(), z)]
    add_kernel[(4, 3)](*described, BLOCK_M=8, BLOCK_N=16)
    return z
