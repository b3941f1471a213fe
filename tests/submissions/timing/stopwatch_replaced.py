"""refused measurement_skipped: puts a stopwatch without a cover in the place of the grader's.

Attack 5. Twin: timing/honest_twin.
"""

import dataclasses
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


def run(stopwatch, prepared, seed):
    module = sys.modules["grader.child.stopwatch"]
    recipe = dataclasses.replace(prepared.timed.recipe, seed=seed)
    values = stopwatch._build(recipe)
    with prepared.watch() as seen:
        stopwatch._timer.start()
        z = prepared.function(*values)
        stopwatch._timer.stop()
    stopwatch._outputs, stopwatch._seen = (z,), seen
    raw = z.detach().reshape(-1).view(torch.uint8)
    return stopwatch._fetched(torch.cat([module._piece_sums(raw), torch.zeros(1, dtype=torch.int64, device=z.device)]))


sys.modules["grader.child.stopwatch"].Stopwatch.run = run


def vector_add(x, y):
    return added(x, y)
