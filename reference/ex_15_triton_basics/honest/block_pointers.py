"""Block pointers with a boundary check instead of pointers with a mask, in all four parts.

Needs triton < 3.9: block pointers.
"""

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def vector_block(ptr, n_elements, BLOCK: tl.constexpr):
    """Return the block of this program, as a pointer that knows where the vector ends."""
    return tl.make_block_ptr(
        ptr, shape=(n_elements,), strides=(1,), offsets=(tl.program_id(0) * BLOCK,), block_shape=(BLOCK,), order=(0,)
    )


@triton.jit
def row_block(ptr, n_rows, n_columns, stride, BLOCK_N: tl.constexpr):
    """Return the row of this program, as a 1 × BLOCK_N pointer that knows where the matrix ends."""
    return tl.make_block_ptr(
        ptr,
        shape=(n_rows, n_columns),
        strides=(stride, 1),
        offsets=(tl.program_id(0), 0),
        block_shape=(1, BLOCK_N),
        order=(1, 0),
    )


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n_elements, BLOCK: tl.constexpr):
    x = tl.load(vector_block(x_ptr, n_elements, BLOCK), boundary_check=(0,))
    y = tl.load(vector_block(y_ptr, n_elements, BLOCK), boundary_check=(0,))
    tl.store(vector_block(z_ptr, n_elements, BLOCK), x + y, boundary_check=(0,))


@triton.jit
def multiply_add_kernel(x_ptr, y_ptr, z_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    x = tl.load(vector_block(x_ptr, n_elements, BLOCK), boundary_check=(0,)).to(tl.float32)
    y = tl.load(vector_block(y_ptr, n_elements, BLOCK), boundary_check=(0,)).to(tl.float32)
    z = tl.load(vector_block(z_ptr, n_elements, BLOCK), boundary_check=(0,)).to(tl.float32)
    # Unlike a pointer with a mask, a block pointer wants the value in the type that it points to.
    out = (x * y + z).to(out_ptr.dtype.element_ty)
    tl.store(vector_block(out_ptr, n_elements, BLOCK), out, boundary_check=(0,))


@triton.jit
def softmax_kernel(x_ptr, p_ptr, n_rows, n_columns, stride_xm, stride_pm, BLOCK_N: tl.constexpr):
    x = tl.load(row_block(x_ptr, n_rows, n_columns, stride_xm, BLOCK_N), boundary_check=(0, 1)).to(tl.float32)
    # Block pointers pad with zero or NaN only.
    columns = tl.arange(0, BLOCK_N)[None, :]
    x = tl.where(columns < n_columns, x, float("-inf"))
    numerator = tl.exp(x - tl.max(x, axis=1, keep_dims=True))
    p = (numerator / tl.sum(numerator, axis=1, keep_dims=True)).to(p_ptr.dtype.element_ty)
    tl.store(row_block(p_ptr, n_rows, n_columns, stride_pm, BLOCK_N), p, boundary_check=(0, 1))


@triton.jit
def sum_kernel(x_ptr, s_ptr, n_elements, BLOCK: tl.constexpr):
    x = tl.load(vector_block(x_ptr, n_elements, BLOCK), boundary_check=(0,), padding_option="zero")
    tl.atomic_add(s_ptr, tl.sum(x.to(tl.float32), axis=0))


def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, z, x.numel(), BLOCK=BLOCK)
    return z


def fused_multiply_add(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    multiply_add_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, z, out, x.numel(), BLOCK=BLOCK)
    return out


def row_softmax(x: torch.Tensor) -> torch.Tensor:
    n_rows, n_columns = x.shape
    p = torch.empty((n_rows, n_columns), dtype=x.dtype, device=x.device)
    block_n = triton.next_power_of_2(n_columns)
    softmax_kernel[(n_rows,)](
        x, p, n_rows, n_columns, x.stride(0), p.stride(0), BLOCK_N=block_n, num_warps=min(max(block_n // 512, 1), 16)
    )
    return p


def global_sum(x: torch.Tensor) -> torch.Tensor:
    s = torch.zeros((), dtype=torch.float32, device=x.device)
    sum_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, s, x.numel(), BLOCK=BLOCK)
    return s
