"""An object that is called, in inference mode, with views and contiguous()."""

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside), mask=inside)


class Adder:
    def __call__(self, x, y):
        with torch.inference_mode():
            z = x.new_empty(x.shape)
            _add[triton.cdiv(x.numel(), 256), 1, 1](x.contiguous(), y.view(-1), z, x.numel(), 256)
        return z


vector_add = Adder()
