"""A constant number of persistent programs that stride over the blocks (or rows), for any size, in all four parts.

The number of steps is a compile-time constant, rounded up to a power of two: steps beyond the end are masked out.
"""

import torch
import triton
import triton.language as tl

PROGRAMS = 16
BLOCK = 1024


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n_elements, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    for step in range(STEPS):
        offsets = (step * tl.num_programs(0) + pid) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n_elements
        x = tl.load(x_ptr + offsets, mask=mask)
        y = tl.load(y_ptr + offsets, mask=mask)
        tl.store(z_ptr + offsets, x + y, mask=mask)


@triton.jit
def multiply_add_kernel(x_ptr, y_ptr, z_ptr, out_ptr, n_elements, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    for step in tl.range(STEPS, num_stages=2):
        offsets = (step * tl.num_programs(0) + pid) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n_elements
        x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
        y = tl.load(y_ptr + offsets, mask=mask).to(tl.float32)
        z = tl.load(z_ptr + offsets, mask=mask).to(tl.float32)
        tl.store(out_ptr + offsets, x * y + z, mask=mask)


@triton.jit
def softmax_kernel(x_ptr, p_ptr, n_rows, n_columns, stride_xm, stride_pm, STEPS: tl.constexpr, BLOCK_N: tl.constexpr):
    columns = tl.arange(0, BLOCK_N)
    for step in range(STEPS):
        row = step * tl.num_programs(0) + tl.program_id(0).to(tl.int64)
        if row < n_rows:
            mask = columns < n_columns
            x = tl.load(x_ptr + row * stride_xm + columns, mask=mask, other=float("-inf")).to(tl.float32)
            numerator = tl.exp(x - tl.max(x, axis=0))
            tl.store(p_ptr + row * stride_pm + columns, numerator / tl.sum(numerator, axis=0), mask=mask)


@triton.jit
def sum_kernel(x_ptr, s_ptr, n_elements, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    sums = tl.zeros((BLOCK,), dtype=tl.float32)
    for step in range(STEPS):
        offsets = (step * tl.num_programs(0) + pid) * BLOCK + tl.arange(0, BLOCK)
        sums += tl.load(x_ptr + offsets, mask=offsets < n_elements, other=0.0).to(tl.float32)
    tl.atomic_add(s_ptr, tl.sum(sums, axis=0))


def _steps(pieces: int) -> int:
    """Return the number of steps of each program: together the programs handle that many pieces."""
    return triton.next_power_of_2(triton.cdiv(pieces, PROGRAMS))


def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.empty_like(x)
    steps = _steps(triton.cdiv(x.numel(), BLOCK))
    add_kernel[(PROGRAMS,)](x, y, z, x.numel(), STEPS=steps, BLOCK=BLOCK)
    return z


def fused_multiply_add(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    steps = _steps(triton.cdiv(x.numel(), BLOCK))
    multiply_add_kernel[(PROGRAMS,)](x, y, z, out, x.numel(), STEPS=steps, BLOCK=BLOCK)
    return out


def row_softmax(x: torch.Tensor) -> torch.Tensor:
    n_rows, n_columns = x.shape
    p = torch.empty((n_rows, n_columns), dtype=x.dtype, device=x.device)
    block_n = triton.next_power_of_2(n_columns)
    softmax_kernel[(PROGRAMS,)](
        x, p, n_rows, n_columns, x.stride(0), p.stride(0), STEPS=_steps(n_rows), BLOCK_N=block_n, num_warps=8
    )
    return p


def global_sum(x: torch.Tensor) -> torch.Tensor:
    s = torch.zeros((), dtype=torch.float32, device=x.device)
    sum_kernel[(PROGRAMS,)](x, s, x.numel(), STEPS=_steps(triton.cdiv(x.numel(), BLOCK)), BLOCK=BLOCK)
    return s
