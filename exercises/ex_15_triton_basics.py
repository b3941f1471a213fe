"""ex_15: Triton basics. Four small kernels whose speed is the speed of memory.

A GPU moves a few terabytes per second and computes far faster. So adding two vectors takes as long as moving three
vectors. You write four such kernels: an addition, a fused chain, a softmax and a sum. The arithmetic is easy; the
point is which program touches which element, and how often.

Run it

    grade ex_15                        grade all four parts
    grade ex_15 --part vector_add      grade one part while you work on it
    grade hint ex_15 --part vector_add      the first of three hints; --level 3 is the plainest

Without a GPU your kernels run in Triton's interpreter, on the CPU: values and the number of launches are judged there,
speed is not. The scorecard says what was judged and what was not. Either way you edit this file only.

Where to start

    1. Read the worked example below (`double`), and run it: TRITON_INTERPRET=1 python exercises/ex_15_triton_basics.py
    2. vector_add            the worked example with a second input
    3. fused_multiply_add    the same kernel with a longer formula: see what fusing saves
    4. row_softmax           a whole row in one program, and what happens to the lanes beyond its end
    5. global_sum            programs that have to meet in one number

The parts do not depend on each other. A part that still raises NotImplementedError counts as not started; the others
are still graded. Parts 1 and 2 take about ten lines each, parts 3 and 4 about fifteen.

The rules, for every part

- Your Triton kernels do the arithmetic. In PyTorch you may allocate (`torch.empty`, `torch.empty_like`,
  `torch.zeros`), make views and read shapes and strides. Torch operators that compute fail the checks.
- Return new memory at every call, on the device of the input: `torch.empty_like(x)` or
  `torch.empty(shape, dtype=..., device=x.device)`. Memory from `torch.empty` holds NaN while you are graded, so an
  element that you forget to write is seen.
- Leave the inputs as they are, and never read or write outside them: the memory around them is not yours.

New to Triton? Five facts

- A kernel is a function marked `@triton.jit`. `kernel[(P,)](...)` starts P copies of it, called programs. They run at
  the same time and in no particular order; `tl.program_id(0)` tells a program which of the P it is.
- Within a program you compute on whole blocks (tiles) of numbers. A block's shape must be known when the kernel is
  compiled (`BLOCK: tl.constexpr`) and its sides must be powers of two.
- A tensor argument arrives as a pointer to its first element. Pointer plus offsets gives pointers, counted in
  elements; `tl.load` and `tl.store` follow them.
- Lengths are rarely multiples of the block. `mask=` says which lanes have data: the others neither read nor write,
  and a load gives them the value of `other=`. Without `other=` their value is undefined on a GPU.
- Small floats are for storing. Convert with `.to(tl.float32)` before you compute; `tl.store` converts back to the
  type of the output.
"""

import torch
import triton
import triton.language as tl

# Worked example: out = 2·x. Read it, run it, then write vector_add in the same way. It is not graded.


@triton.jit
def double_kernel(x_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    """Double BLOCK consecutive elements: program 0 the first BLOCK, program 1 the next BLOCK, and so on."""
    # Which block is mine? With BLOCK = 1024, program 2 starts at element 2048. The conversion to 64 bits keeps
    # pid * BLOCK right for vectors of more than 2**31 elements.
    pid = tl.program_id(0).to(tl.int64)

    # The element numbers of my block: 2048, 2049, ..., 3071. This is a block of 1024 numbers, not one number.
    offsets = pid * BLOCK + tl.arange(0, BLOCK)

    # The last block usually reaches past the end. For n_elements = 2500 program 2 has data in its first 452 lanes.
    mask = offsets < n_elements

    # x_ptr + offsets is a block of pointers. Lanes whose mask is False do not touch memory.
    x = tl.load(x_ptr + offsets, mask=mask)

    # The same mask again: a store without it would write past the end of the output.
    tl.store(out_ptr + offsets, 2 * x, mask=mask)


def double(x: torch.Tensor) -> torch.Tensor:
    """Launch the kernel: an ordinary function that allocates the output and starts enough programs to cover it."""
    n_elements = x.numel()
    out = torch.empty_like(x)
    block = 1024
    # cdiv divides and rounds up: 2500 elements in blocks of 1024 need 3 programs.
    grid = (triton.cdiv(n_elements, block),)
    double_kernel[grid](x, out, n_elements, BLOCK=block)
    return out


# Part 1

# @triton.jit
# def vector_add_kernel(x_ptr, y_ptr, z_ptr, n_elements, BLOCK: tl.constexpr):
#     ...which elements are mine, and which of them exist?
#     ...load, add, store


def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Add two vectors.

    Inputs:
        x: [N], float32, float16 or bfloat16; contiguous, N >= 1
        y: [N], same dtype and device as x; contiguous
    Output:
        z: [N], dtype of x; new memory
    Definition:
        z[i] = x[i] + y[i]

    Limits:
        N is any length, such as 1, 127 or 4097. x and y may be slices of larger tensors, so their first element can
        lie at any address. Values may be large or tiny; infinities and NaN follow the usual rules of addition.
    Judged:
        the values, for full and partly filled blocks and for slices; that every call computes its result; that a kernel
        does it, in one launch; the memory traffic, 3·N elements (read x, read y, write z); on a GPU the speed,
        relative to torch's addition.
    """
    raise NotImplementedError("vector_add: write a kernel that adds one block, and launch it over all blocks")


# Part 2

# @triton.jit
# def fused_multiply_add_kernel(x_ptr, y_ptr, z_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
#     ...three loads, one store; what type should the arithmetic have?


def fused_multiply_add(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Multiply two vectors and add a third, in one pass over memory.

    In PyTorch `x * y + z` is two kernels: the product is written to memory and read again. Here it stays in registers.

    Inputs:
        x: [N], float32, float16 or bfloat16; contiguous, N >= 1
        y: [N], same dtype and device as x; contiguous
        z: [N], same dtype and device as x; contiguous
    Output:
        out: [N], dtype of x; new memory
    Definition:
        out[i] = x[i] * y[i] + z[i], computed in float32 and rounded once, to the dtype of x, at the end

    Limits:
        as in vector_add. x[i] * y[i] and z[i] may nearly cancel: a product that is stored or cast to float16 or
        bfloat16 before the addition is visible in the result.
    Judged:
        as in vector_add; one launch; the memory traffic, 4·N elements (unfused: 6·N); on a GPU the speed, relative to
        PyTorch's two kernels. Expect at best the ratio of the traffic: 6/4 = 1.5 times as fast.
    """
    raise NotImplementedError("fused_multiply_add: compute x*y + z in float32 in one kernel, and round once")


# Part 3

# @triton.jit
# def row_softmax_kernel(x_ptr, p_ptr, n_columns, stride_xm, stride_pm, BLOCK_N: tl.constexpr):
#     ...one program per row: where does my row start in x, and where in p?
#     ...load the row; which value makes the lanes beyond its end harmless, in a maximum and in a sum?


def row_softmax(x: torch.Tensor) -> torch.Tensor:
    """Compute softmax of every row of a matrix.

    Inputs:
        x: [M, N], float32, float16 or bfloat16; M >= 1, 1 <= N <= 16384; neighbouring columns lie next to each other
           (x.stride(1) == 1), rows any distance apart (x.stride(0) >= N)
    Output:
        p: [M, N], dtype of x; new memory
    Definition:
        p[m, n] = exp(x[m, n] - max_k x[m, k]) / sum_j exp(x[m, j] - max_k x[m, k]), computed in float32

    Limits:
        N need not be a power of two (`triton.next_power_of_2(N)` gives the block that holds a row). Scores may be so
        large that exp of them overflows. Entries may be -inf (their p is 0), but never a whole row.
        The rows of p need not lie as far apart as those of x: each tensor has its own stride(0).
    Judged:
        the values, for rows that fill a block and rows that do not, large scores, entries of -inf, rows further apart
        than they are long, and up to 16384 columns; that every call computes its result; that a kernel does it; for N
        up to 8192: one launch, and the memory traffic, 2·M·N elements (each row read once and written once); on a GPU
        the share of the bandwidth that a plain copy reaches.
    """
    raise NotImplementedError("row_softmax: keep a row in one program: maximum, exponentials, sum, quotient")


# Part 4


def global_sum(x: torch.Tensor) -> torch.Tensor:
    """Add up all elements of a vector.

    No program sees the whole vector, and programs cannot wait for each other. Two ways to bring their sums together:
    `tl.atomic_add` into one number, or a second, tiny kernel.

    Inputs:
        x: [N], float32, float16 or bfloat16; contiguous, N >= 1
    Output:
        s: [] (no dimensions, as `torch.empty(())` makes it), float32; new memory
    Definition:
        s = sum_i x[i], accumulated in float32, within a block and across blocks

    Limits:
        as in vector_add, all values finite. Add in any order; it may differ from call to call.
    Judged:
        the value, for full and partly filled blocks, for values with a large common offset and for slices; that every
        call computes its result; that kernels do it, in at most two launches; the memory traffic, N elements and 10 %
        more for the blocks' sums (use blocks of 1024 or more); on a GPU the speed, relative to torch.sum.
    """
    raise NotImplementedError("global_sum: sum one block per program in float32, then bring the sums together")


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(double(torch.arange(5.0, device=device)))
