"""compile_error: the kernel's body calls a Python function, as only an interpreter lets it.

Attack 62, 71. On the CPU. Twin: controls/kernel_in_a_closure.
"""

import torch
import triton
import triton.language as tl

held = []


def _work(pid):
    x, y, z = held
    torch.add(x, y, out=z)


@triton.jit
def _kernel(z_ptr):
    _work(tl.program_id(0))


def vector_add(x, y):
    z = torch.empty_like(x)
    held[:] = [x, y, z]
    _kernel[(1,)](z)
    return z
