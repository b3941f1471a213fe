"""Derive the error allowed at each element from the errors of honest code on the same case."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

from grader.exercise.model import Tolerance

# A GPU's atomic addition takes subnormal terms and results for 0. A sum may meet two of them.
_FLUSHED = 2 * torch.finfo(torch.float32).tiny


def ulp(value: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the distance between neighbouring numbers of `dtype` at |value|, in float64.

    It is at least the smallest subnormal.
    """
    limits = torch.finfo(dtype)
    magnitude = value.abs().nan_to_num(0.0, limits.max, limits.max).clamp(limits.tiny, limits.max)
    _, exponent = torch.frexp(magnitude)
    return limits.eps * torch.exp2((exponent - 1).double())


def allowed_error(value: Tensor, honest: Sequence[Tensor], magnitude: Tensor | None, tolerance: Tolerance) -> Tensor:
    """Return the error allowed at each element, in float64 and in the shape of `value`; 0 for integers.

    value: of the oracle. honest: same-precision results in the dtype of the output. magnitude: the oracle of the
    absolute inputs (for sums), or None.
    """
    dtype = honest[0].dtype
    if not dtype.is_floating_point:
        return torch.zeros(value.shape, dtype=torch.float64, device=value.device)
    allowed = tolerance.result_ulps * ulp(value, dtype)
    errors = reduce(torch.maximum, ((result.double() - value).abs() for result in honest))
    # Where the oracle or an honest result is not finite, no error is measured: such elements must match exactly.
    allowed = allowed + tolerance.factor * _group_maximum(errors.nan_to_num(0.0, 0.0, 0.0), tolerance.group)
    if magnitude is not None:
        allowed = allowed + tolerance.accumulation_ulps * ulp(magnitude.expand(value.shape), torch.float32) + _FLUSHED
    return allowed


def _group_maximum(errors: Tensor, group: int) -> Tensor:
    """Return for each element the largest error in its group on the last axis (0: its whole row)."""
    if errors.dim() == 0 or errors.numel() == 0:
        return errors
    length = errors.shape[-1]
    size = group or length
    padded = torch.nn.functional.pad(errors, (0, -length % size))
    blocks = padded.reshape(*errors.shape[:-1], -1, size)
    return blocks.amax(-1, keepdim=True).expand(blocks.shape).reshape(padded.shape)[..., :length]
