"""Block sizes and warps chosen by @triton.autotune among several configurations, in all four parts."""

import torch
import triton
import triton.language as tl

VECTOR_CONFIGS = [
    triton.Config({"BLOCK": 1024}, num_warps=4),
    triton.Config({"BLOCK": 2048}, num_warps=8),
    triton.Config({"BLOCK": 4096}, num_warps=8),
]
ROW_CONFIGS = [triton.Config({}, num_warps=warps) for warps in (2, 4, 8, 16)]


@triton.autotune(configs=VECTOR_CONFIGS, key=[])
@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, x + y, mask=mask)


@triton.autotune(configs=VECTOR_CONFIGS, key=[])
@triton.jit
def multiply_add_kernel(x_ptr, y_ptr, z_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    y = tl.load(y_ptr + offsets, mask=mask).to(tl.float32)
    z = tl.load(z_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(out_ptr + offsets, x * y + z, mask=mask)


# One row per program; the best number of warps depends on the width alone, hence the key.
@triton.autotune(configs=ROW_CONFIGS, key=["BLOCK_N"])
@triton.jit
def softmax_kernel(x_ptr, p_ptr, n_columns, stride_xm, stride_pm, BLOCK_N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK_N)
    mask = columns < n_columns
    x = tl.load(x_ptr + row * stride_xm + columns, mask=mask, other=float("-inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(p_ptr + row * stride_pm + columns, numerator / tl.sum(numerator, axis=0), mask=mask)


# Every trial run adds to the sum, so the tuner has to clear it between the runs.
@triton.autotune(configs=VECTOR_CONFIGS, key=[], reset_to_zero=["s_ptr"])
@triton.jit
def sum_kernel(x_ptr, s_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n_elements, other=0.0).to(tl.float32)
    tl.atomic_add(s_ptr, tl.sum(x, axis=0))


def _grid(n_elements: int):
    """Return the grid as a function of the configuration: it depends on the block that the tuner tries."""
    return lambda config: (triton.cdiv(n_elements, config["BLOCK"]),)


def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.empty_like(x)
    add_kernel[_grid(x.numel())](x, y, z, x.numel())
    return z


def fused_multiply_add(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    multiply_add_kernel[_grid(x.numel())](x, y, z, out, x.numel())
    return out


def row_softmax(x: torch.Tensor) -> torch.Tensor:
    n_rows, n_columns = x.shape
    p = torch.empty((n_rows, n_columns), dtype=x.dtype, device=x.device)
    block_n = triton.next_power_of_2(n_columns)
    softmax_kernel[(n_rows,)](x, p, n_columns, x.stride(0), p.stride(0), BLOCK_N=block_n)
    return p


def global_sum(x: torch.Tensor) -> torch.Tensor:
    s = torch.zeros((), dtype=torch.float32, device=x.device)
    sum_kernel[_grid(x.numel())](x, s, x.numel())
    return s
