"""fail: unwritten: would cut off the memory that its answer is read from, and punches holes into it."""

import array
import ctypes
import mmap
import os
import sys

import torch
import triton
import triton.language as tl

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
            for name in os.listdir("/proc/self/fd"):
                if int(name) > 3:
                    spoil(int(name))
            worker.honest_send(channel, answer)

        worker.send = spoiled
    return torch.full_like(x, float("nan"))

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
