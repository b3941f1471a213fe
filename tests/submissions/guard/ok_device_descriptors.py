"""pass: descriptors made by the kernel, of a window with gaps between its rows, clipped at the edges."""

import torch
import triton
import triton.language as tl

triton.set_allocator(lambda size, _alignment, _stream: torch.empty(size, dtype=torch.int8, device="cuda"))


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, M, N, stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, shape=[M, N], strides=[stride, 1], block_shape=[BLOCK_M, BLOCK_N])
    y = tl.make_tensor_descriptor(y_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N])
    z = tl.make_tensor_descriptor(z_ptr, shape=[M, N], strides=[stride, 1], block_shape=[BLOCK_M, BLOCK_N])
    row, column = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    z.store([row, column], x.load([row, column]) + y.load([row, column]))


def vector_add(x, y):
    spread, z = (torch.empty((25, 64), dtype=x.dtype, device=x.device)[:, :40] for _ in range(2))
    spread.copy_(x.view(25, 40))
    add_kernel[(4, 3)](spread, y.clone().view(25, 40), z, 25, 40, 64, BLOCK_M=8, BLOCK_N=16)
    return z.reshape(-1)
