"""fail: out_of_bounds: load of y_ptr: arguments given by name, below decorators of several lines."""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 128}),
        triton.Config({"BLOCK": 256}),
    ],
    key=["n"],
)
@triton.heuristics(
    {"EVEN": lambda given: given["n"] % given["BLOCK"] == 0},
)
@triton.jit
def add_kernel(
    x_ptr,
    y_ptr,
    z_ptr,
    n,
    EVEN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets)  # here
    tl.store(z_ptr + offsets, x + y, mask=offsets < n)


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](z_ptr=z, y_ptr=y, x_ptr=x, n=x.numel())
    return z
