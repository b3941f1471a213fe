"""crash: an exception in fifty thousand groups."""

import torch
import triton
import triton.language as tl


def vector_add(x, y):
    raised = ValueError("innermost")
    for _ in range(50_000):
        raised = ExceptionGroup("a group", [raised])
    raise raised


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
