"""fail: wrong_type: a right kernel, and a result whose memory is given back before it is returned."""

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside), mask=inside)


def added(x, y):
    z = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z


def vector_add(x, y):
    z = added(x, y)
    z.untyped_storage().resize_(0)
    return z


@triton.jit
def _softmax(x_ptr, p_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    x = tl.load(x_ptr + row * stride + columns, mask=inside, other=-float("inf")).to(tl.float32)
    powers = tl.exp(x - tl.max(x, 0))
    tl.store(p_ptr + row * n + columns, powers / tl.sum(powers, 0), mask=inside)


def row_softmax(x):
    rows, n = x.shape
    p = torch.empty((rows, n), dtype=x.dtype, device=x.device)
    _softmax[(rows,)](x, p, x.stride(0), n, BLOCK=triton.next_power_of_2(n))
    return p
