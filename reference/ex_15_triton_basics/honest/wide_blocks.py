"""Blocks of 8192 elements, so that most vectors fit into one program with many idle lanes."""

import torch
import triton
import triton.language as tl

BLOCK = 8192


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(z_ptr + offsets, x + y, mask=mask)


@triton.jit
def multiply_add_kernel(x_ptr, y_ptr, z_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    z = tl.load(z_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, z + y * x, mask=mask)


@triton.jit
def sum_kernel(x_ptr, s_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n_elements, other=0.0).to(tl.float32)
    tl.atomic_add(s_ptr, tl.sum(x, axis=0))


def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, z, x.numel(), BLOCK=BLOCK, num_warps=8)
    return z


def fused_multiply_add(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    multiply_add_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, z, out, x.numel(), BLOCK=BLOCK, num_warps=8)
    return out


def global_sum(x: torch.Tensor) -> torch.Tensor:
    s = torch.zeros((), dtype=torch.float32, device=x.device)
    sum_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, s, x.numel(), BLOCK=BLOCK, num_warps=8)
    return s
