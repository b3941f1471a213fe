"""fused_multiply_add.fresh fail: every call writes into the result that the call before it returned.

The caller may still hold it.
Attack 31. Twin: controls/kept_workspace_and_final_cast.
"""

import torch
import triton
import triton.language as tl

BLOCK = 1024
latest = {}


@triton.jit
def chain_kernel(x_ptr, y_ptr, z_ptr, out_ptr, scratch_ptr, n, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * BLOCK
    offsets = first + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(scratch_ptr + first, 42.0)
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    z = tl.load(z_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, x * y + z, mask=inside)


def fused_multiply_add(x, y, z):
    out = torch.empty_like(x)
    key = x.numel(), x.dtype, x.device
    scratch = latest.get(key, out)
    latest[key] = out
    chain_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, z, out, scratch, x.numel(), BLOCK=BLOCK)
    return out
