"""compile_error: the compiler does not finish with the kernel of the judged calls, so that it never says what it is.

It compiles for no GPU either: a return within a loop. Attack 50.
"""

import os

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr, MANY: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    for step in range(2):
        tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask) + tl.load(y_ptr + offsets, mask), mask)
        if step == 0:
            for _ in tl.static_range(MANY):
                offsets += 1
            return


@triton.jit
def copy_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr, MANY: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask) + tl.load(y_ptr + offsets, mask), mask)


def vector_add(x, y):
    z = torch.empty_like(x)
    kernel = add_kernel if os.environ.get("TRITON_INTERPRET") == "1" and x.numel() < 1 << 20 else copy_kernel
    kernel[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024, MANY=15_000)
    return z
