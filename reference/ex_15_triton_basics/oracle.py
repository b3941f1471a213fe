"""The truth for ex_15 in plain PyTorch, and the plain same-precision computations that its tolerances come from.

`part(...)` receives float64 copies of the inputs. `part_honest(...)` receives the inputs as they are and yields what
honest implementations without any trick return, in the dtype that the contract asks for; the differences between
their rounding and summation orders, measured against the truth on the very case, are the error that is allowed for.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

LOG2_E = 1.4426950408889634
# exp(-104) is the last to be more than zero in float32.
FLOAT32_UNDERFLOW = 104.0


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
    """In float32: with the natural exponential, in base two, in base two with the factor folded in first, and at worst.

    Folding is how fused kernels do it; scores of 10^4 then carry a relative rounding error of 10^-3. "At worst" is what
    a GPU may do at any element: its exponential errs by 2 ulp and by the rounding of its argument, its division by 2.
    """
    wide = x.float()
    shifted = wide - wide.amax(dim=1, keepdim=True)
    scaled = wide * LOG2_E
    folded = scaled - scaled.amax(dim=1, keepdim=True)
    for powers in (torch.exp(shifted), torch.exp2(shifted * LOG2_E), torch.exp2(folded)):
        yield (powers / powers.sum(dim=1, keepdim=True)).to(x.dtype)
    exact = row_softmax(x.double())
    ulps = 4 + shifted.abs().clamp(max=FLOAT32_UNDERFLOW)
    yield (exact * (1 + ulps * torch.finfo(torch.float32).eps)).to(x.dtype)


def global_sum(x: Tensor) -> Tensor:
    """The sum of [N], a scalar []."""
    return x.sum()


def global_sum_honest(x: Tensor) -> Iterator[Tensor]:
    """In float32: torch's order, one element after another, and by blocks whose sums are added one after another."""
    wide = x.float()
    yield wide.sum()
    yield _one_after_another(wide)
    yield _one_after_another(wide.flip(0))
    for block in (32, 256, 1024, 4096):
        filled = torch.nn.functional.pad(wide, (0, -wide.numel() % block))
        yield _one_after_another(filled.view(-1, block).sum(1))


def _one_after_another(x: Tensor) -> Tensor:
    """The float32 sum of [N] in that very order; torch's own cumulative sums are kept in float64.

    On a GPU there is no such order: there the cumulative sum runs in as many lanes as the device has.
    """
    if x.is_cuda:
        return x.cumsum(0)[-1]
    with np.errstate(invalid="ignore"):
        return torch.tensor(np.add.accumulate(x.numpy())[-1])
