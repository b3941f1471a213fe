"""pass: autotuned, with an argument that is reset before each trial; no tensor where None is given."""

import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 64})], key=["n"], reset_to_zero=["s_ptr"])
@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, s_ptr, bias_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0)
    y = tl.load(y_ptr + offsets, mask=inside, other=0.0)
    if bias_ptr is not None:
        y += tl.load(bias_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, x + y, mask=inside)
    tl.atomic_add(s_ptr, tl.sum(x, axis=0))


def vector_add(x, y):
    z, s = torch.empty_like(x), torch.zeros((), dtype=x.dtype, device=x.device)
    add_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, z, s, None, x.numel())
    return z
