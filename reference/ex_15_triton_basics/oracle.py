"""The truth for ex_15 in plain PyTorch, and the plain same-precision computations that its tolerances come from.

`part(...)` receives float64 copies of the inputs. `part_honest(...)` receives the inputs as they are and yields what
honest implementations without any trick return, in the dtype of the contract. Their rounding and summation orders
differ: their errors against the truth, measured on the same case, set the allowed error.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

ELEMENTS_OF_A_PORTION = 1 << 20
# The CPU adds up this many elements one after another in a few milliseconds.
MOST_IN_TURN = 1 << 22
# The CPU adds up one element after another.
MOST_BY_WARPS = 1 << 20
LOG2_E = 1.4426950408889634
# In float32 exp(-x) is 0 for every x above this.
FLOAT32_UNDERFLOW = 104.0


def vector_add(x: Tensor, y: Tensor) -> Tensor:
    """z = x + y, [N]."""
    return x + y


def vector_add_honest(x: Tensor, y: Tensor) -> Iterator[Tensor]:
    """Add in float32, and round once."""
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

    Fused kernels fold the factor; scores of 10^4 then have a relative rounding error of 10^-3. One warp may add up a
    row. "At worst" is the error that a GPU may make at any element: its exponential errs by 2 ulp and by the rounding
    of its argument, its division by 2.
    """
    wide = x.float()
    shifted = wide - wide.amax(dim=1, keepdim=True)
    scaled = wide * LOG2_E
    folded = scaled - scaled.amax(dim=1, keepdim=True)
    for powers in (torch.exp(shifted), torch.exp2(shifted * LOG2_E), torch.exp2(folded)):
        yield (powers / powers.sum(dim=1, keepdim=True)).to(x.dtype)
    if x.numel() <= MOST_BY_WARPS:
        powers = torch.exp(shifted)
        yield (powers / _sums_of_a_warp(powers)).to(x.dtype)
    exact = row_softmax(x.double())
    ulps = 4 + shifted.abs().clamp(max=FLOAT32_UNDERFLOW)
    yield (exact * (1 + ulps * torch.finfo(torch.float32).eps)).to(x.dtype)


def _sums_of_a_warp(powers: Tensor) -> Tensor:
    """Return the sums of rows, [M, 1], in which each thread of a warp adds its share one by one.

    A large element makes all later sums of its thread coarse: at N = 16384, the sum of a row errs by tens of ulp.
    Which share it belongs to is a matter of layouts: here it leads the share that it spoils most.
    """
    largest, place = powers.max(dim=1, keepdim=True)
    rest = powers.scatter(1, place, 0.0)
    shares = pad(rest, (0, -rest.shape[1] % 32)).reshape(len(powers), -1, 32)
    led = torch.cat([largest[..., None].expand(-1, 1, 32), shares], dim=1).cpu()
    added = torch.from_numpy(np.add.accumulate(led.numpy(), axis=1, dtype=np.float32)[:, -1])
    errors = added.double() - led.double().sum(dim=1)
    worst = errors.gather(1, errors.abs().argmax(dim=1, keepdim=True))
    return powers.double().sum(dim=1, keepdim=True) + worst.to(powers.device)


def global_sum(x: Tensor) -> Tensor:
    """Return the sum of [N], a scalar []."""
    return x.sum()


def global_sum_honest(x: Tensor) -> Iterator[Tensor]:
    """In float32: torch's order, one element after another, and by blocks whose sums are added one after another."""
    wide = x.float()
    yield wide.sum()
    yield _one_after_another(wide)
    yield _one_after_another(wide.flip(0))
    for block in (32, 256, 1024, 4096):
        filled = pad(wide, (0, -wide.numel() % block))
        yield _one_after_another(filled.view(-1, block).sum(1))


def _one_after_another(x: Tensor) -> Tensor:
    """Return the float32 sum of [N] in this order; torch's own cumulative sums run in float64.

    A GPU has no such order: its cumulative sum runs in as many lanes as the device has, and errs far less than atomic
    additions to one number. So the CPU adds up vectors that do not take it long.
    """
    if x.numel() > MOST_IN_TURN and x.is_cuda:
        return x.cumsum(0)[-1]
    with np.errstate(invalid="ignore"):
        return torch.tensor(np.add.accumulate(x.cpu().numpy())[-1], device=x.device)


# -- portions --------------------------------------------------------------------------------------------------------


def vector_add_portion(chance: float, x: Tensor, y: Tensor) -> tuple[tuple[Tensor, ...], tuple[int]]:
    """Return a stretch of the vectors, and its start."""
    some = _stretch(chance, x)
    return (x[some], y[some]), (some.start,)


def fused_multiply_add_portion(chance: float, x: Tensor, y: Tensor, z: Tensor) -> tuple[tuple[Tensor, ...], tuple[int]]:
    """Return a stretch of the vectors, and its start."""
    some = _stretch(chance, x)
    return (x[some], y[some], z[some]), (some.start,)


def row_softmax_portion(chance: float, x: Tensor) -> tuple[tuple[Tensor, ...], tuple[int]]:
    """Return some rows, and their start."""
    rows = _stretch(chance, x)
    return (x[rows],), (rows.start * x.shape[1],)


def _stretch(chance: float, x: Tensor) -> slice:
    """Return a stretch of the first axis that holds a million elements, or all of them."""
    count = min(x.shape[0], max(1, ELEMENTS_OF_A_PORTION // (x.numel() // max(1, x.shape[0]) or 1)))
    first = int(chance * (x.shape[0] - count + 1))
    return slice(first, first + count)
