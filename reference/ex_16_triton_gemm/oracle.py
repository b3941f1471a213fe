"""The truth for ex_16 in plain PyTorch, and the plain same-precision computations that its tolerances come from.

`part(...)` receives float64 copies of the inputs. `part_honest(...)` receives the inputs as they are and yields what
honest implementations return, in the dtype that the contract asks for: float32 sums in several orders, rounded once.
Everything runs where its inputs lie; the matrices of a timed product stay on the GPU.
"""

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

# Products up to so many multiply-adds are also added up one by one, which stores every sum: in 32 MiB. Where all terms
# are equal, the errors of such a sum add up, and no other order's errors are as large.
ONE_BY_ONE = 1 << 23
# Otherwise K is cut into at most so many blocks.
MOST_BLOCKS = 32
# What a tensor core multiplies and adds to its sum in one step.
TENSOR_CORE_DEPTH = 16
# The rounding errors of a sum in any order, in standard deviations; the tolerance takes twice as many.
DEVIATIONS = 2.5
ROWS_OF_A_PORTION = 256
FLOAT32_EPS = torch.finfo(torch.float32).eps
# Below this, tanh(z / 2) is -1.
SATURATED = -20.0
# A sum of three numbers, however it is rounded, errs by less than so many ulp; the tolerance takes twice as many.
ULPS_OF_A_SUM = 3.0


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """c = a @ b, [M, N]."""
    return a @ b


def matmul_honest(a: Tensor, b: Tensor) -> Iterator[Tensor]:
    """Add up in float32, in any order, and round once."""
    for c in _sums(a, b):
        yield c.to(a.dtype)


def matmul_bias_silu(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
    """silu(a @ b + bias), [M, N]."""
    return silu(a @ b + bias)


def matmul_bias_silu_honest(a: Tensor, b: Tensor, bias: Tensor) -> Iterator[Tensor]:
    """Yield the same sums with the epilogue in float32; sums that start with the bias; and at worst.

    "At worst" is what a GPU may do at any element: its exponential errs by 2 ulp, its division by 2, and every other
    operation of the epilogue by half of one. A sigmoid of 1 + tanh(z / 2) errs by an ulp of 1, and is 0 far below 0.
    The sum z may err by some ulp of all its terms; silu hands that on only where it is not flat.
    """
    for c in _sums(a, b):
        yield silu(c + bias.float()).to(a.dtype)
    if a.shape[0] * b.numel() <= ONE_BY_ONE:
        # An accumulator that starts with the bias: each of its sums is rounded as a number of the bias's size.
        first = a.new_ones((a.shape[0], 1), dtype=torch.float32)
        yield silu(_one_by_one(torch.cat([first, a.float()], 1), torch.cat([bias.float()[None], b.float()]))).to(
            a.dtype
        )
    z = a.double() @ b.double() + bias.double()
    yield (silu(z) * (1 + 5 * FLOAT32_EPS)).to(a.dtype)
    coarse = (torch.sigmoid(z) + FLOAT32_EPS).masked_fill(z < SATURATED, 0.0)
    yield (z * coarse).to(a.dtype)
    error = ULPS_OF_A_SUM * FLOAT32_EPS * (a.double().abs() @ b.double().abs() + bias.double().abs())
    largest = torch.finfo(a.dtype).max
    for shaken in (z + error, z - error):
        # Of infinities, no error is measured.
        yield silu(shaken).clamp(-largest, largest).to(a.dtype)


def silu(z: Tensor) -> Tensor:
    """z · sigmoid(z); the sigmoid is 0, not NaN, where exp(-z) overflows."""
    return z * torch.sigmoid(z)


def _sums(a: Tensor, b: Tensor) -> Iterator[Tensor]:
    """Yield a @ b in float32: in torch's order, backwards, by blocks of K, one by one, and as tensor cores do it."""
    wide_a, wide_b = a.float(), b.float()
    depth = a.shape[1]
    least = -(-depth // MOST_BLOCKS)
    yield wide_a @ wide_b
    yield wide_a.flip(1) @ wide_b.flip(0)
    for block in {max(16, least), max(64, least), -(-depth // 4)}:
        total = torch.zeros((), device=a.device)
        for start in range(0, depth, block):
            total = total + wide_a[:, start : start + block] @ wide_b[start : start + block]
        yield total
    if a.shape[0] * b.shape[1] * depth <= ONE_BY_ONE:
        yield _one_by_one(wide_a, wide_b)
    yield _in_any_order(wide_a, wide_b)
    if a.dtype != torch.float32:
        yield _truncated(wide_a, wide_b)


def _one_by_one(a: Tensor, b: Tensor) -> Tensor:
    """Add one product after the other, and round each sum: NumPy accumulates in the dtype of the products."""
    products = a.T[:, :, None] * b[:, None, :]
    with np.errstate(invalid="ignore", over="ignore"):
        return torch.from_numpy(np.add.accumulate(products.cpu().numpy(), axis=0)[-1]).to(a.device)


def _in_any_order(a: Tensor, b: Tensor) -> Tensor:
    """As a kernel may add that takes K in an order of its own: from its end, or in parts.

    Each of K additions rounds by up to half an ulp of the sum so far, at random. That sum is at most the sum of all
    blocks of K that have the same sign.
    """
    depth = a.shape[1]
    block = -(-depth // MOST_BLOCKS)
    zero = torch.zeros((), device=a.device)
    above, below = zero, zero
    for start in range(0, depth, block):
        part = a[:, start : start + block] @ b[start : start + block]
        above, below = above + part.clamp(min=0), below + part.clamp(max=0)
    largest = torch.maximum(above, -below)
    return above + below + DEVIATIONS * math.sqrt(depth / 12) * FLOAT32_EPS * largest


def _truncated(a: Tensor, b: Tensor) -> Tensor:
    """As tensor cores may do it: every step cuts off what lies beyond the last bit of the running sum.

    A cut loses up to eps times the running sum, always towards zero, so the losses add up. The running sum is known at
    the ends of blocks.
    """
    depth = a.shape[1]
    steps = -(-depth // (TENSOR_CORE_DEPTH * MOST_BLOCKS))
    block = TENSOR_CORE_DEPTH * steps
    total = torch.zeros((), device=a.device)
    lost = torch.zeros((), device=a.device)
    for start in range(0, depth, block):
        total = total + a[:, start : start + block] @ b[start : start + block]
        lost = lost + steps * FLOAT32_EPS * total
    return total - lost


# -- portions --------------------------------------------------------------------------------------------------------


def matmul_portion(chance: float, a: Tensor, b: Tensor) -> tuple[tuple[Tensor, ...], tuple[int]]:
    """Return some rows of a, and the start of their rows of c."""
    rows = _some_rows(chance, a)
    return (a[rows], b), (rows.start * b.shape[1],)


def matmul_bias_silu_portion(
    chance: float, a: Tensor, b: Tensor, bias: Tensor
) -> tuple[tuple[Tensor, ...], tuple[int]]:
    """Return some rows of a, and the start of their rows of the result."""
    rows = _some_rows(chance, a)
    return (a[rows], b, bias), (rows.start * b.shape[1],)


def _some_rows(chance: float, a: Tensor) -> slice:
    count = min(a.shape[0], ROWS_OF_A_PORTION)
    first = int(chance * (a.shape[0] - count + 1))
    return slice(first, first + count)
