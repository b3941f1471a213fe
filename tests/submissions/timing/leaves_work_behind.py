"""gains nothing: leaves a long kernel on a stream of its own, for the baseline to run beside.

Attack 1, 27. On the GPU. Twin: timing/control_joined_side_stream.
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


def is_timed(x):
    """Answers are judged at smaller sizes."""
    return x.numel() > 1 << 16


streams = {}


def vector_add(x, y):
    z = added(x, y)
    if is_timed(x):
        side = streams.setdefault(x.device, torch.cuda.Stream())
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(2_000_000_000)
    return z
