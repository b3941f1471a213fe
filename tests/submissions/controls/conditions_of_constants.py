"""Conditions that a compiler decides, of every kind: constants, dtypes, a missing tensor, an argument that is 1."""

import torch
import triton
import triton.language as tl


@triton.jit
def _scaled(x, NEGATIVE: tl.constexpr):
    return -x if NEGATIVE else x


@triton.jit
def _combine(x_ptr, y_ptr, bias_ptr, z_ptr, n, stride, PARTS: tl.constexpr, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK * PARTS
    for part in tl.static_range(PARTS):
        offsets = first + part * BLOCK + tl.arange(0, BLOCK)
        inside = offsets < n
        if part == 0 and EVEN:
            x = tl.load(x_ptr + offsets * stride)
        else:
            x = tl.load(x_ptr + offsets * stride, mask=inside)
        y = tl.load(y_ptr + offsets * stride, mask=inside) if stride == 1 else tl.load(y_ptr + offsets, mask=inside)
        if bias_ptr is not None:
            y += tl.load(bias_ptr + offsets, mask=inside)
        z = x - _scaled(y, x.dtype == tl.float32 or not EVEN or PARTS > 1)
        if z_ptr.dtype.element_ty.is_floating() and z.shape[0] == BLOCK:
            tl.store(z_ptr + offsets, z, mask=inside)


def vector_add(x, y):
    z = torch.empty_like(x)
    n, parts, block = x.numel(), 2, 512
    even = n % (parts * block) == 0
    _combine[(triton.cdiv(n, parts * block),)](x, y, None, z, n, 1, PARTS=parts, EVEN=even, BLOCK=block)
    return z
