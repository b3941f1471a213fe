"""Builds the inputs of one case: a function per part, `part(case, generator) -> arguments in the stub's order`.

All tensors are made on the generator's device: the CPU for correctness, the GPU for the large timed products.
"""

import math
from collections.abc import Mapping

import torch
from torch import Generator, Tensor

from grader.exercise.tensors import dtype_of, starting_at, values

# Noise in the factors of an "overflowing" sum; and the size below which "nonfinite" makes an element of b 0.
NOISE = 0.03


def matmul(case: Mapping[str, object], generator: Generator) -> tuple[Tensor, Tensor]:
    """Return a: [M, K], b: [K, N], in the case's memory layouts."""
    a, b = _operands(case, generator)
    return laid_out(a, case["a_layout"]), laid_out(b, case["b_layout"])


def matmul_bias_silu(case: Mapping[str, object], generator: Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Return a: [M, K], b: [K, N], bias: [N].

    "cancelling": the bias is the rounded negative of the product's first row, so that only rounding is left of that
    row. "extreme": it is ±10^4, where exp overflows. "nonfinite": a and bias have some inf and NaN, and b no negative
    number: no sum is -inf, whose silu has no value in floating point.
    """
    a, b = _operands(case, generator)
    if case["values"] == "nonfinite":
        a, b = a.where(a != -math.inf, math.inf), b.abs()
    a, b = laid_out(a, case["a_layout"]), laid_out(b, case["b_layout"])
    shape = (int(case["N"]),)
    if case["values"] == "cancelling":
        return a, b, (-(a[0].double() @ b.double())).to(a.dtype)
    family = case["values"] if case["values"] in ("extreme", "nonfinite") else "normal"
    bias = values(family, shape, a.dtype, generator)
    return a, b, bias.where(bias != -math.inf, math.inf)


def _operands(case: Mapping[str, object], generator: Generator) -> tuple[Tensor, Tensor]:
    """Return a: [M, K] and b: [K, N], row by row, of the case's dtype and family of values.

    Most families apply to a; then b is normal, and for "large" so small that every element of the product is finite.
    overflowing: the first half of each sum outgrows float16, and the second half cancels it. nonfinite: a few rows of a
    hold one inf, -inf or NaN each (every element of these rows of the product is then inf or NaN), and b some zeros.
    zeroed: a is 0 in the first half of K, b is 0 in the second, and the other operand holds such numbers there: 0 · inf
    is NaN.
    """
    family, dtype = str(case["values"]), dtype_of(case["dtype"])
    rows, columns, depth = int(case["M"]), int(case["N"]), int(case["K"])
    if family == "overflowing":
        return _overflowing(rows, columns, depth, dtype, generator)
    if family == "nonfinite":
        a = values("normal", (rows, depth), dtype, generator)
        b = values("normal", (depth, columns), dtype, generator)
        return _with_nonfinite(a, generator), torch.where(b.abs() < NOISE, torch.zeros_like(b), b)
    if family == "zeroed":
        half = depth // 2
        a = values("normal", (rows, depth), dtype, generator)
        b = values("normal", (depth, columns), dtype, generator)
        a[:, :half], b[half:] = 0, 0
        a[:, half:] = _with_nonfinite(a[:, half:], generator)
        b[:half] = _with_nonfinite(b[:half].t(), generator).t()
        return a, b
    a = values(family if family in A_FAMILIES else "normal", (rows, depth), dtype, generator)
    if family == "constant":
        return a, values("constant", (depth, columns), dtype, generator)
    b = values("normal", (depth, columns), torch.float32, generator)
    scale = 4 * math.sqrt(depth) if family == "large" else 1
    return a, (b / scale).to(dtype)


def _with_nonfinite(matrix: Tensor, generator: Generator) -> Tensor:
    """Return a matrix [R, C] of which a few rows hold one inf, -inf or NaN each."""
    hit = values("nonfinite", (matrix.shape[0], 1), matrix.dtype, generator)
    at = values("one_hot", tuple(matrix.shape), matrix.dtype, generator) != 0
    return torch.where(at & ~hit.isfinite(), hit, matrix)


A_FAMILIES = ("large", "tiny", "constant", "one_hot", "shifted", "stretch")


def _overflowing(
    rows: int, columns: int, depth: int, dtype: torch.dtype, generator: Generator
) -> tuple[Tensor, Tensor]:
    """Return a = [h, -h] with large positive h, b about 1: over half of K a sum is large, over all of it not."""
    half = depth // 2
    a = values("normal", (rows, depth), dtype, generator)
    h = values("large", (rows, half), dtype, generator).abs()
    a[:, :half] = h
    a[:, half : 2 * half] = -h
    b = values("normal", (depth, columns), torch.float32, generator)
    return a, (1 + NOISE * b).to(dtype)


def laid_out(matrix: Tensor, layout: object) -> Tensor:
    """Return the same matrix [R, C] in another memory layout.

    rows: row after row. columns: column after column. sliced, sliced_columns: the same as a window of a larger matrix.
    padded, padded_columns: such a window whose rows, or columns, all begin at multiples of 32 bytes, where code may
    take wide accesses or tensor descriptors. unaligned: row after row, from the second element of a longer tensor.
    spread: every second row and every third column of a larger matrix. repeated, repeated_columns: all rows, or
    columns, are the first one, in the same memory; only these two change the values.
    """
    rows, columns = matrix.shape
    match str(layout):
        case "rows":
            return matrix
        case "columns":
            view = matrix.new_empty(columns, rows).t()
        case "sliced":
            view = matrix.new_empty(rows + 1, columns + 13)[1:, 5 : 5 + columns]
        case "sliced_columns":
            view = matrix.new_empty(columns + 3, rows + 9)[3:, 1 : 1 + rows].t()
        case "padded":
            view = _padded(matrix)
        case "padded_columns":
            view = _padded(matrix.t()).t()
        case "unaligned":
            return starting_at(matrix, 1)
        case "spread":
            view = matrix.new_empty(2 * rows, 3 * columns)[::2, ::3]
        case "repeated":
            return matrix[:1].clone().expand(rows, columns)
        case "repeated_columns":
            return matrix[:, :1].clone().expand(rows, columns)
        case unknown:
            raise ValueError(f"a layout must be one of those above, got {unknown!r}")
    view.copy_(matrix)
    return view


def _padded(matrix: Tensor) -> Tensor:
    """Return an uninitialised window of a matrix whose rows are a multiple of 16 elements long."""
    rows, columns = matrix.shape
    return matrix.new_empty(rows + 1, -(-columns // 16) * 16 + 32)[1:, 16 : 16 + columns]
