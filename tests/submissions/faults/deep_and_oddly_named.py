"""fail: zeros: folders deeper than any path, links out, and names that are no text."""

import os

import torch
import triton
import triton.language as tl


def vector_add(x, y):
    here = os.getcwd()
    if not os.path.exists("deep"):
        for target in ("/", "/tmp", "..", "/proc/self/root"):
            os.symlink(target, b"link-" + target.encode().replace(b"/", b"\xff\n"))
        os.mkfifo("pipe")
        os.mkdir("deep")
        os.chdir("deep")
        for _ in range(2100):
            os.mkdir("d")
            os.chdir("d")
        os.symlink("/tmp", "out")
        os.chdir(here)
    return torch.zeros_like(x)


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
