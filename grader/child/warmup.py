"""A kernel of the grader's own. Running it once in the fork server pays for Triton's imports at a first launch."""

import torch
import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def _double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, N803
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) * 2.0, mask=inside)


def double(x: torch.Tensor) -> torch.Tensor:
    """Return 2·x for x: [N], float32, computed by a Triton kernel."""
    out = torch.empty_like(x)
    _double[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out
