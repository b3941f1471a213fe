"""Kernels that call nested kernels, math of triton's, and constants of the module."""

import torch
import triton
import triton.language as tl


@triton.jit
def _copy(source_ptr, target_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target_ptr + offsets, tl.load(source_ptr + offsets, mask=offsets < n), mask=offsets < n)


def copied(source):
    target = torch.empty_like(source)
    _copy[(triton.cdiv(source.numel(), 1024),)](source, target, source.numel(), BLOCK=1024)
    return target


SCALE: tl.constexpr = tl.constexpr(1.0)


@triton.jit
def _inside(offsets, n):
    return offsets < n


@triton.jit
def _sum(x, y):
    return tl.math.fma(x, SCALE, y)


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=_inside(offsets, n)).to(tl.float32)
    y = tl.load(y_ptr + offsets, mask=_inside(offsets, n)).to(tl.float32)
    tl.store(z_ptr + offsets, _sum(x, y), mask=_inside(offsets, n))


def vector_add(x, y):
    z = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z
