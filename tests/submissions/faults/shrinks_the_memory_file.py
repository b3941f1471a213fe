"""fail: zeros: would cut off the memory that its answer is read from, and punches a hole into it."""

import ctypes
import os
import stat
import sys

import torch
import triton
import triton.language as tl

KEPT = []


def spoil(descriptor):
    for size in (0, 1 << 40):
        try:
            os.ftruncate(descriptor, size)
        except OSError:
            pass
    # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
    ctypes.CDLL(None).fallocate(descriptor, 3, ctypes.c_long(0), ctypes.c_long(1 << 30))


def vector_add(x, y):
    worker = sys.modules["grader.child.worker"]
    if not hasattr(worker, "honest_send"):
        worker.honest_send = worker.send

        def spoiled(channel, answer):
            while KEPT:
                spoil(KEPT.pop())
            worker.honest_send(channel, answer)

        worker.send = spoiled
    # The worker lets go of it before it answers.
    for descriptor in range(4, 64):
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                KEPT.append(os.dup(descriptor))
        except OSError:
            pass
    # What reads a value is run, not only recorded.
    x[0].item()
    z = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside), mask=inside)

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
