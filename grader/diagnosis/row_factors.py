"""Find the factors by which the rows of an output are off. Tensors in, factors out."""

from __future__ import annotations

import math

from torch import Tensor

# An error shows a factor if it is at least this many times the allowed one.
_ABOVE_ALLOWED = 8
# The least number of such elements in a row, and their least share of all wrong elements.
_LEAST, _LEAST_SHARE = 4, 0.5
# What the factor leaves of an error, and the share of the elements in which it must leave no more.
_LEFT, _ALIKE_SHARE = 0.25, 0.95


def row_factors(got: Tensor, value: Tensor, allowed: Tensor) -> Tensor | None:
    """Return the factor of each wrong row, [rows]: its elements are those of value, times this factor.

    got, value, allowed: [..., N]. None if errors within a row differ in another way, or are too small to show it, or if
    all of them are zeros: those are the true values times 0, whatever the mistake is.
    """
    if got.dim() < 2:
        return None
    wide, off = got.double(), (got.double() - value).abs()
    wrong = ~(off <= allowed)
    shows = off.isfinite() & (off > _ABOVE_ALLOWED * allowed) & (value != 0)
    rows = shows.sum(-1) >= _LEAST
    if not bool(rows.any()) or float((shows & rows[..., None]).sum()) < _LEAST_SHARE * float(wrong.sum()):
        return None
    own, true, shown = wide[rows], value[rows], shows[rows]
    factors = (own / true).masked_fill(~shown, math.nan).nanmedian(-1).values
    left = (own - factors[:, None] * true).abs() <= _LEFT * off[rows]
    alike = float(left[shown].double().mean()) >= _ALIKE_SHARE
    return factors if alike and bool(factors.any()) and bool(factors.isfinite().all()) else None
