"""pass: the last unit of 16 bytes ends beyond the row, inside the padding that the file allocated for it."""

import torch
import triton
import triton.language as tl

triton.set_allocator(lambda size, _alignment, _stream: torch.empty(size, dtype=torch.int8, device="cuda"))


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, N, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    x = tl.make_tensor_descriptor(x_ptr, shape=[N], strides=[1], block_shape=[BLOCK])
    y = tl.make_tensor_descriptor(y_ptr, shape=[N], strides=[1], block_shape=[BLOCK])
    z = tl.make_tensor_descriptor(z_ptr, shape=[N], strides=[1], block_shape=[BLOCK])
    z.store([start], x.load([start]) + y.load([start]))


def vector_add(x, y):
    first, second = (torch.empty(999, dtype=x.dtype, device=x.device) for _ in range(2))
    first.copy_(x[:999])
    second.copy_(y[:999])
    z = torch.empty(1000, dtype=x.dtype, device=x.device)[:999]
    add_kernel[(triton.cdiv(999, 64),)](first, second, z, 999, BLOCK=64)
    return torch.cat([z, x[999:] + y[999:]])
