"""pass: a product whose K is split over programs that add their tiles by atomics."""

import torch
import triton
import triton.language as tl


@triton.jit
def product_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr, SPLITS: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for first in range(tl.program_id(2) * BLOCK, K, SPLITS * BLOCK):
        ks = first + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + rows * K + ks[None, :], mask=(rows < M) & (ks[None, :] < K), other=0.0)
        b = tl.load(b_ptr + ks[:, None] * N + columns, mask=(ks[:, None] < K) & (columns < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.atomic_add(c_ptr + rows * N + columns, acc, mask=(rows < M) & (columns < N))


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside), mask=inside)


def vector_add(x, y):
    c = torch.zeros((20, 20), dtype=torch.float32, device=x.device)
    product_kernel[(2, 2, 3)](x.view(20, 50), y.view(50, 20), c, 20, 20, 50, BLOCK=16, SPLITS=3)
    z = torch.empty_like(x)
    add_kernel[(8,)](x, y, z, x.numel(), BLOCK=128)
    return z
