"""passes: a pre-hook clears what the kernel adds to; larger blocks alone are left for long vectors."""

import torch
import triton
import triton.language as tl


def clear(arguments):
    arguments["z_ptr"].zero_()


def fitting(configs, arguments, **named):
    return configs[1:] if arguments["n"] > 1 << 16 else configs


@triton.autotune(
    [triton.Config({"BLOCK": block}, pre_hook=clear) for block in (1024, 2048, 4096)],
    key=["n"],
    prune_configs_by={"early_config_prune": fitting},
)
@triton.jit
def _add_into(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, tl.load(z_ptr + offsets, mask=inside) + total, mask=inside)


def vector_add(x, y):
    z = torch.empty_like(x)
    _add_into[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, z, x.numel())
    return z
