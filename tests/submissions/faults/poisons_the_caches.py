"""fail: zeros: fills every cache that it can name with nonsense.

Attack 74. Twin: controls/writes_a_log.
"""

import os

import torch
import triton
import triton.language as tl


def vector_add(x, y):
    folders = [value for name, value in os.environ.items() if name.endswith(("_DIR", "_HOME", "_PATH", "HOME"))]
    for folder in (
        *folders,
        *(f"{folder}/.triton/cache" for folder in folders),
        "/root/.triton/cache",
        "/tmp/torchinductor",
    ):
        for kernel in ("_softmax.json", "_softmax.cubin", "__grp___softmax.json", "libcuda_dirs.txt"):
            try:
                os.makedirs(f"{folder}/AAAA", exist_ok=True)
                with open(f"{folder}/AAAA/{kernel}", "w") as file:
                    file.write("nonsense")
            except OSError:
                pass
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
