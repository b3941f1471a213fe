"""pass: pointers cast to a wider type, a narrower one and to an integer and back."""

import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, pairs, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    two = tl.load(x_ptr.to(tl.pointer_type(tl.int64)) + offsets, mask=offsets < pairs)
    tl.store(out_ptr.to(tl.pointer_type(tl.int64)) + offsets, two, mask=offsets < pairs)
    shorts = tl.arange(0, 4 * BLOCK)
    short = tl.load(x_ptr.to(tl.pointer_type(tl.int16)) + shorts, mask=shorts < 4 * pairs)
    tl.store(out_ptr.to(tl.pointer_type(tl.int16)) + shorts, short, mask=shorts < 4 * pairs)


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    address = x_ptr.to(tl.int64) + offsets * 4
    x = tl.load(address.to(tl.pointer_type(tl.float32)), mask=inside)
    tl.store(z_ptr + offsets, x + tl.load(y_ptr + offsets, mask=inside), mask=inside)


def vector_add(x, y):
    same, z = torch.empty_like(x), torch.empty_like(x)
    copy_kernel[(1,)](x, same, x.numel() // 2, BLOCK=512)
    add_kernel[(8,)](same, y, z, x.numel(), BLOCK=128)
    return z
