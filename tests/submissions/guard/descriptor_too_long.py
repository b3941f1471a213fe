"""fail: out_of_bounds: load of x_ptr: the kernel's descriptor says 26 rows, and there are 25."""

import torch
import triton
import triton.language as tl

triton.set_allocator(lambda size, _alignment, _stream: torch.empty(size, dtype=torch.int8, device="cuda"))


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, N: tl.constexpr, BLOCK_M: tl.constexpr):
    row = tl.program_id(0) * BLOCK_M
    x = tl.make_tensor_descriptor(x_ptr, shape=[26, N], strides=[N, 1], block_shape=[BLOCK_M, N])
    y = tl.make_tensor_descriptor(y_ptr, shape=[25, N], strides=[N, 1], block_shape=[BLOCK_M, N])
    z = tl.make_tensor_descriptor(z_ptr, shape=[25, N], strides=[N, 1], block_shape=[BLOCK_M, N])
    left = x.load([row, 0])  # here
    z.store([row, 0], left + y.load([row, 0]))


def vector_add(x, y):
    rows = torch.zeros((25, 64), dtype=x.dtype, device=x.device), torch.zeros((25, 64), dtype=x.dtype, device=x.device)
    for padded, flat in zip(rows, (x, y)):
        padded[:, :40].copy_(flat.view(25, 40))
    z = torch.empty((25, 64), dtype=x.dtype, device=x.device)
    add_kernel[(4,)](*rows, z, N=64, BLOCK_M=8)
    return z[:, :40].reshape(-1)
