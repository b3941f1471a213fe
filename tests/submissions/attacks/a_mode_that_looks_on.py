"""policy: library_call: a torch mode of the submission's own is active while the kernel runs.

Attack 56, 58. Twin: controls/callable_object_in_inference_mode.
"""

from torch.overrides import TorchFunctionMode

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


class Onlooker(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def vector_add(x, y):
    total = torch.empty_like(x)
    torch.add(x, y, out=total)
    with Onlooker():
        return copied(total)
