"""crash: answers with a size that is text, a count of a thousand digits, and no number."""

import os
import time

import torch
import triton
import triton.language as tl

PAYLOAD = b'''{"answer": "returned", "outputs": [{"kind": "tensor", "shape": ["8192"]}, {"kind": "tensor", "shape": [-1]}],
"changed": [], "overrun": [], "launches": [], "allocated_bytes": NaN, "allocated_bytes": %s}''' % (b"9" * 1000)


def vector_add(x, y):
    os.write(3, b"grd1" + len(PAYLOAD).to_bytes(4, "big") + PAYLOAD)
    time.sleep(60)

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
