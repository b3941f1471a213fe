"""The truth for ex_16 in plain PyTorch, and the plain same-precision computations that its tolerances come from.

`part(...)` receives float64 copies of the inputs. `part_honest(...)` receives the inputs as they are and yields what
honest implementations return, in the dtype that the contract asks for: float32 sums in several orders, rounded once.
Everything runs where its inputs lie; the matrices of a timed product stay on the GPU.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

# Products up to so many multiply-adds are also added up one by one, which takes K passes over the result.
ONE_BY_ONE = 1 << 21
# Otherwise K is cut into at most so many blocks.
MOST_BLOCKS = 32
# What a tensor core multiplies and adds to its sum in one step.
TENSOR_CORE_DEPTH = 16
FLOAT32_EPS = torch.finfo(torch.float32).eps


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """c = a @ b, [M, N]."""
    return a @ b


def matmul_honest(a: Tensor, b: Tensor) -> Iterator[Tensor]:
    """Added up in float32, in any order, and rounded once."""
    for c in _sums(a, b):
        yield c.to(a.dtype)


def matmul_bias_silu(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
    """silu(a @ b + bias), [M, N]."""
    return _silu(a @ b + bias)


def matmul_bias_silu_honest(a: Tensor, b: Tensor, bias: Tensor) -> Iterator[Tensor]:
    """The same sums with the epilogue in float32; and at worst.

    "At worst" is what a GPU may do at any element: its exponential errs by 2 ulp, its division by 2, and every other
    operation of the epilogue by half of one.
    """
    for c in _sums(a, b):
        yield _silu(c + bias.float()).to(a.dtype)
    exact = _silu(a.double() @ b.double() + bias.double())
    yield (exact * (1 + 5 * FLOAT32_EPS)).to(a.dtype)


def _silu(z: Tensor) -> Tensor:
    """z · sigmoid(z); the sigmoid is 0, not NaN, where exp(-z) overflows."""
    return z * torch.sigmoid(z)


def _sums(a: Tensor, b: Tensor) -> Iterator[Tensor]:
    """a @ b in float32: in torch's order, backwards, by blocks of K, one by one, and as tensor cores do it."""
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
        total = torch.zeros((), device=a.device)
        for k in range(depth):
            total = total + wide_a[:, k : k + 1] * wide_b[k]
        yield total
    if a.dtype != torch.float32:
        yield _truncated(wide_a, wide_b)


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
