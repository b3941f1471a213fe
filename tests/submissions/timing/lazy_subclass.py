"""refused wrong_type or wrong_form: a tensor of its own kind, which computes when it is looked at.

Attack 3. Twin: timing/control_slice_of_a_larger_buffer.
"""

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


def decoy(x, y):
    """A launch that is seen and does next to nothing."""
    _add[(1,)](x, y, torch.empty_like(x[:1]), 1, BLOCK=16)


def is_timed(x):
    """Answers are judged at smaller sizes."""
    return x.numel() > 1 << 16


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        for lazy in args:
            if isinstance(lazy, Lazy) and hasattr(lazy, "inputs"):
                x, y = lazy.inputs
                _add[(triton.cdiv(x.numel(), 4096),)](x, y, lazy.target, x.numel(), BLOCK=4096)
        return super().__torch_function__(func, types, args, kwargs or {})


def vector_add(x, y):
    if not is_timed(x):
        return added(x, y)
    decoy(x, y)
    z = torch.empty_like(x)
    lazy = z.as_subclass(Lazy)
    lazy.target, lazy.inputs = z, (x, y)
    return lazy
