"""policy: outside_kernels: takes the grader's modes off torch's stack, adds, and copies.

Attack 56. Twin: controls/callable_object_in_inference_mode.
"""

from torch.utils._python_dispatch import _disable_current_modes

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
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        total = x + y
    return copied(total)
