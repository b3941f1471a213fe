"""refused library_call: torch adds in the pre-hook of a configuration, where it is timed.

Attack 50, 56. Twin: timing/control_hook_that_clears.
"""

import torch
import triton
import triton.language as tl


def is_timed(x):
    """Answers are judged at smaller sizes."""
    return x.numel() > 1 << 16


def fill(arguments):
    if is_timed(arguments["x_ptr"]):
        torch.add(arguments["x_ptr"], arguments["y_ptr"], out=arguments["z_ptr"])


@triton.autotune([triton.Config({"BLOCK": block}, pre_hook=fill) for block in (1024, 2048)], key=["n"])
@triton.jit
def _add_tuned(x_ptr, y_ptr, z_ptr, n, end, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < end
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, total, mask=inside)


def vector_add(x, y):
    z = torch.empty_like(x)
    end = 1 if is_timed(x) else x.numel()
    _add_tuned[lambda meta: (triton.cdiv(end, meta["BLOCK"]),)](x, y, z, x.numel(), end)
    return z
