"""fused_multiply_add.tail fail: programs work on N // 2 pairs, so the last of an odd length is never written.

Cause: remainder_skipped
"""

import torch
import triton
import triton.language as tl

PAIRS = 512


@triton.jit
def multiply_add_kernel(x_ptr, y_ptr, z_ptr, out_ptr, n_pairs, PAIRS: tl.constexpr):
    pairs = tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS)
    offsets = 2 * pairs[:, None] + tl.arange(0, 2)[None, :]
    mask = (pairs < n_pairs)[:, None]
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    y = tl.load(y_ptr + offsets, mask=mask).to(tl.float32)
    z = tl.load(z_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(out_ptr + offsets, x * y + z, mask=mask)


def fused_multiply_add(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    n_pairs = x.numel() // 2
    multiply_add_kernel[(triton.cdiv(n_pairs, PAIRS),)](x, y, z, out, n_pairs, PAIRS=PAIRS)
    return out
