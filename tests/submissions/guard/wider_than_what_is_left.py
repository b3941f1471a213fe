"""fail: out_of_bounds: load of x_ptr: read two at a time, the last of 999 elements has no partner."""

import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, pairs, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x_pairs = x_ptr.to(tl.pointer_type(tl.int64))
    out_pairs = out_ptr.to(tl.pointer_type(tl.int64))
    two = tl.load(x_pairs + offsets, mask=offsets < pairs)  # here
    tl.store(out_pairs + offsets, two, mask=offsets < pairs)


def vector_add(x, y):
    z = torch.empty_like(x)
    copy_kernel[(1,)](x[:999], z, 500, BLOCK=512)
    return z
