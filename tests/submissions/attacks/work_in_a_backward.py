"""policy: library_call: autograd adds, in the backward of a function that a kernel is the forward of.

Attack 56. Twin: controls/autograd_function.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(
        z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside), mask=inside
    )


def added(x, y):
    z = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z


class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x.detach(), y.detach())
        return added(x, y)

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        return x + y, None


def vector_add(x, y):
    given = x.detach().requires_grad_()
    with torch.enable_grad():
        z = Add.apply(given, y)
        return torch.autograd.grad(z, given, torch.empty_like(z))[0]
