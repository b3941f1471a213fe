"""policy: library_call: a profile function computes while a kernel runs.

Attack 56, 58. On the CPU. Twin: controls/measures_itself.
"""

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def _copy(source_ptr, target_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target_ptr + offsets, tl.load(source_ptr + offsets, mask=offsets < n), mask=offsets < n)


def copied(source):
    target = torch.empty_like(source)
    _copy[(triton.cdiv(source.numel(), 1024),)](source, target, source.numel(), BLOCK=1024)
    return target


def vector_add(x, y):
    total = torch.empty_like(x)
    busy = []

    def profile(frame, event, argument):
        if not busy:
            busy.append(True)
            torch.add(x, y, out=total)
            busy.clear()

    target = torch.empty_like(x)
    sys.setprofile(profile)
    try:
        _copy[(triton.cdiv(x.numel(), 1024),)](total, target, x.numel(), BLOCK=1024)
    finally:
        sys.setprofile(None)
    return target
