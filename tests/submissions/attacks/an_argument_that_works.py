"""compile_error: an argument whose data_ptr() method does the work while the kernel starts.

Attack 3, 58. Twin: controls/enumeration_as_constant.
"""

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


class Busy:
    def __init__(self, tensor, work):
        self._tensor, self._work = tensor, work
        self.dtype = tensor.dtype

    def data_ptr(self):
        self._work()
        return self._tensor.data_ptr()

    def __getattr__(self, name):
        return getattr(self._tensor, name)


def vector_add(x, y):
    total, target = torch.empty_like(x), torch.empty_like(x)
    busy = Busy(total, lambda: torch.add(x, y, out=total))
    _copy[(triton.cdiv(x.numel(), 1024),)](busy, target, x.numel(), BLOCK=1024)
    return target
