"""pass: empty tensors beside full ones, masked all over; a grid of no programs."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, bias_ptr, n, biases, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    bias = tl.load(bias_ptr + offsets, mask=offsets < biases, other=0.0)
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, total + bias, mask=inside)


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(8,)](x, y, z, x[:0], x.numel(), 0, BLOCK=128)
    add_kernel[(8,)](x, y, z, torch.empty((0, 7), dtype=x.dtype, device=x.device), x.numel(), 0, BLOCK=128)
    add_kernel[(0,)](x, y, z, x[:0], 0, 0, BLOCK=128)
    return z
