"""ex_16: matrix multiplication in Triton, alone and with an epilogue.

A matrix product does 2·M·N·K operations on M·K + K·N + M·N numbers, so arithmetic, not memory, should limit large
products. It does so only if each loaded number is used often. Tiles do that, and you write them here: first the
product, then the product with a bias and an activation in the same kernel.

Run it

    grade ex_16                        grade both parts
    grade ex_16 --part matmul          grade one part while you work on it
    grade hint ex_16 --part matmul     the first of three hints; --level 3 is the plainest

Without a GPU your kernels run in Triton's interpreter, on the CPU: values and the number of launches are judged there,
speed is not. The scorecard says what was judged and what was not. Either way you edit this file only.

Where to start

    1. Read the worked example below (`transpose`), and run it: TRITON_INTERPRET=1 python exercises/ex_16_triton_gemm.py
    2. matmul                one program per tile of c, a loop over K: see the steps above the function
    3. matmul_bias_silu      the same kernel with three more lines after the loop
    4. On a GPU: other tiles, other orders. `@triton.autotune` works, without a GPU as well.

The parts do not depend on each other. A part that still raises NotImplementedError counts as not started; the other is
still graded. Each kernel takes about 25 lines.

The rules, for both parts

- Your Triton kernels do the arithmetic. In PyTorch you may allocate (`torch.empty`, `torch.zeros`), make views, copy
  and read shapes and strides. Torch operators that compute fail the checks.
- Return new memory at every call, on the device of the input: `torch.empty((M, N), dtype=a.dtype, device=a.device)`.
  Memory from `torch.empty` holds NaN while you are graded, so an element that you forget to write is seen.
- Leave the inputs as they are, and never read or write outside them: the memory around them is not yours.

Why tiles

    A program that computes one element of c reads a row of a and a column of b: 2·K loads. All of c: 2·M·N·K.
    A program that computes a tile of 64 × 64 reads 64 rows and 64 columns: 2·64·K loads for 4096 elements.
    All of c: 2·M·N·K / 64. A tile with sides twice as long halves the traffic, until the accumulator no longer fits
    into the registers.

    With M = N = K = 4096 in float16, an H200 needs at least 0.15 ms for the arithmetic. Loading both operands again
    for every element would move 275 GB: 60 ms. Tiles of 128 × 128 move 2 GB.

Four things to know

- The order of the programs decides what they find in L2. Those that run at the same time should share rows of a and
  columns of b: number the tiles so that a group of, say, 8 tile rows is walked column by column ("grouped raster").
- `tl.dot` multiplies float16 and bfloat16 tiles on the tensor cores into a float32 accumulator: keep it in float32
  through the whole loop, `acc = tl.dot(a, b, acc)`. It rounds float32 tiles to TF32's 10 bits, unless you write
  `input_precision="ieee"`; the interpreter here does the same.
- The sides of a tile are powers of two and at least 16, also where the matrix is smaller: mask the rest.
- Configurations differ in speed only. `@triton.autotune(configs=[triton.Config({"BLOCK_M": 64, ...}, num_warps=4)],
  key=[...])` above `@triton.jit` tries them at the first call of a size. Here only timed calls do so: all other calls
  take the first configuration that works, so put a good one first.
"""

import torch
import triton
import triton.language as tl

# Worked example: the transpose of a matrix of any strides, tile by tile. Read it, run it. It is not graded.


@triton.jit
def transpose_kernel(
    x_ptr, y_ptr, M, N, stride_xm, stride_xn, stride_ym, stride_yn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Transpose the tile in tile row program_id(0), tile column program_id(1)."""
    # Which rows and which columns are mine? Two vectors; the conversion to 64 bits keeps offsets right in matrices
    # of more than 2**31 elements.
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)

    # [:, None] makes a column of the row numbers and [None, :] a row of the column numbers; together they span the
    # tile: element (i, j) of a matrix lies i · stride(0) + j · stride(1) elements after its first one.
    x_ptrs = x_ptr + rows[:, None] * stride_xm + columns[None, :] * stride_xn

    # The last tiles reach past the matrix in either direction, so the mask has two sides as well.
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tile = tl.load(x_ptrs, mask=mask, other=0.0)

    # Element (i, j) of x is element (j, i) of y.
    y_ptrs = y_ptr + columns[None, :] * stride_ym + rows[:, None] * stride_yn
    tl.store(y_ptrs, tile, mask=mask)


def transpose(x: torch.Tensor) -> torch.Tensor:
    """Launch a grid with one program per tile. The strides tell the kernel how a matrix lies in memory."""
    M, N = x.shape
    y = torch.empty((N, M), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    transpose_kernel[grid](x, y, M, N, *x.stride(), *y.stride(), BLOCK_M=32, BLOCK_N=32)
    return y


# Part 1

# @triton.jit
# def matmul_kernel(
#     a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
#     BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
# ):
#     ...1. which tile of c is mine: which rows of a, which columns of b?
#     ...2. pointers to the first BLOCK_M × BLOCK_K tile of a and the first BLOCK_K × BLOCK_N tile of b
#     ...3. acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
#     ...4. for every block of K: load both tiles, with masks (what about the last block of K?), tl.dot, move on
#     ...5. store the tile, with a mask; this is where it is rounded to the dtype of c


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Multiply two matrices.

    Inputs:
        a: [M, K], float32, float16 or bfloat16; any strides, M, K >= 1
        b: [K, N], same dtype and device as a; any strides, N >= 1
    Output:
        c: [M, N], dtype of a; new memory
    Definition:
        c[m, n] = sum_k a[m, k] * b[k, n], accumulated in float32 and rounded once, at the end; float32 inputs are
        multiplied as float32, not as TF32

    Limits:
        M, N and K are any sizes, such as 1, 65 or 2000. a and b may be transposed (a.stride(0) == 1), windows of larger
        matrices, or have gaps in both directions; they may start at any element, and a stride may be 0: then all rows
        share their memory. Values may be large or tiny, and partial sums may outgrow float16 where the result does not;
        infinities and NaN follow the usual rules (0 · inf is NaN, so what lies beyond the end of K must be masked in
        both operands).
    Judged:
        the values, for sizes that fill every tile and sizes that do not, thin matrices and long K, and for any
        strides; that sums and products are in float32; that every call computes its result; that kernels do it, in any
        number of launches (you may split a long K over programs, and add up the partial results in a second kernel or
        by tl.atomic_add); the memory traffic, at most that of tiles of 32 × 32; on a GPU the speed, relative to cuBLAS.
    """
    raise NotImplementedError("matmul: write a kernel that computes one tile of c in a loop over K")


# Part 2

# @triton.jit
# def matmul_bias_silu_kernel(a_ptr, b_ptr, bias_ptr, out_ptr, ...):
#     ...1. to 4. as above
#     ...5. the epilogue: the bias of my columns, then silu, on the float32 accumulator
#     ...6. store


def matmul_bias_silu(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Multiply two matrices, add a bias to every column, and apply SiLU, in one kernel.

    In PyTorch `silu(a @ b + bias)` is three kernels: the product is written to memory, read and written again for the
    bias, and again for the activation. Here it never leaves the registers until it is done.

    Inputs:
        a: [M, K], float32, float16 or bfloat16; any strides, M, K >= 1
        b: [K, N], same dtype and device as a; any strides, N >= 1
        bias: [N], same dtype and device as a; contiguous
    Output:
        out: [M, N], dtype of a; new memory
    Definition:
        z[m, n] = sum_k a[m, k] * b[k, n] + bias[n]
        out[m, n] = z[m, n] / (1 + exp(-z[m, n])), all of it in float32, rounded once, at the end

    Limits:
        as in matmul. The product and the bias may nearly cancel, so rounding the product to float16 or bfloat16
        before the bias is added is visible in the result. z may be so large that exp(-z) or exp(z) overflows; it is
        never -inf. Equal inputs give equal bits: no atomic additions here.
    Judged:
        as in matmul; one launch; on a GPU the speed, relative to cuBLAS and PyTorch's two other kernels.
    """
    raise NotImplementedError("matmul_bias_silu: the product's kernel, with bias and silu before the store")


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(transpose(torch.arange(6.0, device=device).reshape(2, 3)))
