"""Writes a line about every call to a file, and says at the end how many there were."""

import atexit

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(
        z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside), mask=inside
    )


def added(x, y):
    z = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z


calls = []


@atexit.register
def _say():
    print(len(calls), "calls")


def vector_add(x, y):
    calls.append(x.numel())
    with open("calls.log", "a") as log:
        log.write(f"{x.numel()}\n")
    return added(x, y)
