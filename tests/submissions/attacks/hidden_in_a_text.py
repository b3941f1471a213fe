"""policy: library_call: the call of torch is pasted together from pieces and executed.

Attack 62. Twin: controls/kernel_in_a_closure.
"""

import codecs

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


names = {}
exec(codecs.decode("qrs jbex(k, l): erghea trgngge(__vzcbeg__('gbe' + 'pu'), 'n' + 'qq')(k, l)", "rot13"), names)


def vector_add(x, y):
    return copied(names["work"](x, y))
