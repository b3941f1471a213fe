"""refused wrong_when_timed: its recorder tells of one program where it launches many.

Attack 5. Twin: timing/honest_twin.
"""

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, total, mask=inside)


def added(x, y):
    z = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 4096),)](x, y, z, x.numel(), BLOCK=4096)
    return z


recorder = sys.modules["grader.recorder.recorder"].Recorder
launch = recorder.launch


def patched(self, kernel, grid, *rest):
    return launch(self, kernel, (1,) if grid[0] > 16 else grid, *rest)


recorder.launch = patched


def vector_add(x, y):
    return added(x, y)
