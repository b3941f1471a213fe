"""Find right values in wrong places: stretches of an output that belong elsewhere, or that hold a sum with those.

A kernel that takes the wrong rows, or stores to the wrong place, computes right numbers. A stretch of several elements
is found elsewhere by chance only if values repeat, and such stretches do not count. Tensors in, clues out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from grader.judge.clue import Clue
from grader.judge.truth import Expected

# The usual and the least length of a stretch: shorter ones agree by chance, longer ones cross the edges of tiles.
_LONG, _LEAST = 8, 4
# The number of wrong stretches that are searched for.
_SEARCHED = 24
# The least number of stretches that are found elsewhere, and their least share of those that do not repeat.
_LEAST_FOUND, _LEAST_SHARE = 4, 0.75
# The largest output, in elements: larger ones take too long.
_LARGEST = 1 << 17
# Rounding allowed around a value, in eps of the dtype and of the stretch's largest value.
_ROUNDINGS = 4.0
_WEIGHT = 0.9

_Place = tuple[int, ...]


@dataclass(frozen=True)
class Found:
    """A stretch of an output: where it is, and where its values belong."""

    stands: _Place
    belongs: _Place

    @property
    def moved(self) -> _Place:
        """Return the distance from where it belongs to where it is, along each axis."""
        return tuple(here - there for here, there in zip(self.stands, self.belongs, strict=True))


def misplaced_clues(
    got: Tensor, wrong: Tensor, expected: Expected, blocks: Sequence[int], *, fresh: bool = True
) -> Iterator[Clue]:
    """Yield the clue of values that belong elsewhere, or of sums with such values.

    blocks: sizes in the launch. fresh: the output is new memory.
    """
    if not _LEAST <= got.numel() <= _LARGEST or not got.dtype.is_floating_point or not got.dim():
        return
    wide, name = got.double(), expected.name
    for axis in range(got.dim() - 1, -1, -1):
        stretches = _Stretches(axis, wrong, expected, torch.finfo(got.dtype).eps)
        if found := stretches.found_in(wide, expected.value):
            yield _elsewhere(name, found, blocks)
            return
        # The excess of a sum was there before: the answer of another place, or its right value.
        for held in (wide, expected.value) if fresh else ():
            if found := stretches.found_in(wide - expected.value, held):
                first = found[0]
                evidence = f"{name}{list(first.stands)} is too large by the value of {name}{list(first.belongs)}"
                yield Clue("not_cleared", _WEIGHT, f"{evidence}, and others in the same way.", firm=True)
                return


class _Stretches:
    """The stretches along one axis of an output in which every element is wrong."""

    def __init__(self, axis: int, wrong: Tensor, expected: Expected, eps: float) -> None:
        self._axis, self._shape, self._eps = axis, wrong.shape, eps
        self._long = min(_LONG, wrong.shape[axis])
        self._allowed = expected.allowed
        self._searched: list[_Place] = []
        if self._long >= _LEAST:
            starts = self._windows(wrong).all(-1).nonzero()
            some = starts[:: max(1, len(starts) // _SEARCHED)][:_SEARCHED]
            self._searched = [tuple(one) for one in some.tolist()]

    def _windows(self, values: Tensor) -> Tensor:
        """Return all stretches: along the axis their starts, along a new last axis their elements."""
        return values.unfold(self._axis, self._long, 1)

    def found_in(self, values: Tensor, held: Tensor) -> list[Found]:
        """Return the stretches of `values` that `held` has in one other place; none if too few are found."""
        if len(self._searched) < _LEAST_FOUND:
            return []
        all_of, own = self._windows(held), self._windows(values)
        allowed = self._windows(self._allowed)
        telling, found = 0, []
        for place in self._searched:
            stretch = own[place]
            if not bool(stretch.isfinite().all()) or float(stretch.max()) == float(stretch.min()):
                continue
            rounding = _ROUNDINGS * self._eps * stretch.abs().max()
            within = allowed[place] + rounding
            # Compare only those that begin with the same value.
            begins = ((all_of[..., 0] - stretch[0]).abs() <= within[0]).nonzero()
            same = ((all_of[tuple(begins.T)] - stretch).abs() <= within).all(-1)
            near = begins[same]
            if len(near) > 1:
                # Values that repeat prove nothing.
                continue
            telling += 1
            if len(near) and (belongs := tuple(near[0].tolist())) != place:
                found.append(Found(place, belongs))
        return found if len(found) >= max(_LEAST_FOUND, _LEAST_SHARE * telling) else []


def _elsewhere(name: str, found: Sequence[Found], blocks: Sequence[int]) -> Clue:
    first = found[0]
    evidence = (
        f"{name}{list(first.stands)} holds the right value of {name}{list(first.belongs)}, and others are as far off."
    )
    if len({one.moved for one in found}) == 1:
        return Clue("position_shifted", _WEIGHT, evidence)
    evidence = evidence.replace("others are as far off", "others are in other places too")
    if any(all(map(turned, found)) for turned in _exchanges(len(first.stands), blocks)):
        return Clue("axes_exchanged", _WEIGHT, evidence)
    return Clue("wrong_address", _WEIGHT, evidence)


def _exchanges(axes: int, blocks: Sequence[int]) -> Iterator[Callable[[Found], bool]]:
    """Yield tests for two axes, or the numbers of tiles along them, that are exchanged."""
    for one in range(axes):
        for other in range(one + 1, axes):
            for tile in sorted({1, *blocks}):

                def turned(found: Found, one: int = one, other: int = other, tile: int = tile) -> bool:
                    here, there = found.stands, found.belongs
                    same = all(here[i] == there[i] for i in range(axes) if i not in (one, other))
                    return same and (here[one] // tile, here[other] // tile) == (
                        there[other] // tile,
                        there[one] // tile,
                    )

                yield turned
