"""pass: a permutation through int64 indices: programs store all over the output, each element once."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, order_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    place = tl.load(order_ptr + offsets, mask=inside, other=0)
    total = tl.load(x_ptr + place, mask=inside) + tl.load(y_ptr + place, mask=inside)
    tl.store(z_ptr + place, total, mask=inside)


def vector_add(x, y):
    order = torch.tensor([(7 * place) % 1000 for place in range(1000)], dtype=torch.int64, device=x.device)
    z = torch.empty_like(x)
    add_kernel[(8,)](x, y, z, order, x.numel(), BLOCK=128)
    return z
