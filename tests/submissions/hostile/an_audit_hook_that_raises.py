"""crash: once a kernel has run, everything that Python audits raises.

Attack 5. Twin: controls/measures_itself.
"""

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside), mask=inside)


def added(x, y):
    z = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z


armed = False


def _raise(name, arguments):
    if armed:
        raise RuntimeError(name)


sys.addaudithook(_raise)


def vector_add(x, y):
    global armed
    z = added(x, y)
    armed = True
    return z
