"""Takes the time of its own calls, with every clock there is, and looks for who called."""

import inspect
import os
import resource
import time

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


times = []


def vector_add(x, y):
    started = time.perf_counter(), time.process_time(), time.monotonic_ns(), resource.getrusage(resource.RUSAGE_SELF)
    z = added(x, y)
    times.append((inspect.stack()[1].function, os.environ.get("USER"), time.perf_counter() - started[0]))
    return z
