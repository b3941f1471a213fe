"""The truth for ex_15 in plain PyTorch, and the plain same-precision computations that its tolerances come from.

`part(...)` receives float64 copies of the inputs. `part_honest(...)` receives the inputs as they are and yields what
honest implementations without any trick return, in the dtype that the contract asks for; the differences between
their rounding and summation orders, measured against the truth on the very case, are the error that is allowed for.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

LOG2_E = 1.4426950408889634


def vector_add(x: Tensor, y: Tensor) -> Tensor:
    """z = x + y, [N]."""
    return x + y


def vector_add_honest(x: Tensor, y: Tensor) -> Iterator[Tensor]:
    """Added in float32, rounded once."""
    yield (x.float() + y.float()).to(x.dtype)


def fused_multiply_add(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """x * y + z, [N]."""
    return x * y + z


def fused_multiply_add_honest(x: Tensor, y: Tensor, z: Tensor) -> Iterator[Tensor]:
    """In float32 with the product rounded to float32; a fused product errs less."""
    yield (x.float() * y.float() + z.float()).to(x.dtype)


def row_softmax(x: Tensor) -> Tensor:
    """exp(x) / sum(exp(x)) over each row of [M, N], shifted by the row's maximum so that nothing overflows."""
    powers = torch.exp(x - x.amax(dim=1, keepdim=True))
    return powers / powers.sum(dim=1, keepdim=True)


def row_softmax_honest(x: Tensor) -> Iterator[Tensor]:
    """In float32: with the natural exponential, in base two, and in base two with the factor folded in first.

    The last is how fused kernels do it; scores of 10^4 then carry a relative rounding error of 10^-3.
    """
    wide = x.float()
    shifted = wide - wide.amax(dim=1, keepdim=True)
    scaled = wide * LOG2_E
    folded = scaled - scaled.amax(dim=1, keepdim=True)
    for powers in (torch.exp(shifted), torch.exp2(shifted * LOG2_E), torch.exp2(folded)):
        yield (powers / powers.sum(dim=1, keepdim=True)).to(x.dtype)


def global_sum(x: Tensor) -> Tensor:
    """The sum of [N], a scalar []."""
    return x.sum()


def global_sum_honest(x: Tensor) -> Iterator[Tensor]:
    """In float32: torch's order, backwards, and by blocks of several sizes whose sums are added one after another."""
    wide = x.float()
    yield wide.sum()
    yield wide.flip(0).sum()
    for block in (32, 256, 1024, 4096):
        partials = torch.stack([piece.sum() for piece in wide.split(block)])
        yield torch.cumsum(partials, 0)[-1]
