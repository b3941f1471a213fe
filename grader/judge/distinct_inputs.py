"""Draw inputs whose whole numbers differ from those that the submission's process saw.

Lengths and tables take few values in a small case. If true inputs equal the decoys or another call's inputs by chance,
a call that reads from the wrong place is right. Then other seeds are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

from torch import Tensor

from grader.exercise.tensors import is_whole
from grader.protocol.requests import Recipe

# In some cases they cannot differ, as when every sequence is as long as the cache.
_MOST_DRAWS = 6

Numbers = Callable[[Recipe], tuple[bytes, ...]]


def whole_numbers(values: Sequence[object]) -> tuple[bytes, ...]:
    """Return the bytes of the whole-number tensors among the arguments of a call."""
    return tuple(
        value.cpu().contiguous().numpy().tobytes()
        for value in values
        if isinstance(value, Tensor) and is_whole(value.dtype)
    )


def draw_distinct(drawn: Callable[[int], list[Recipe]], decoys: Sequence[Recipe], numbers: Numbers) -> list[Recipe]:
    """Return the first draw of recipes that differ in whole numbers from their decoys and from each other.

    drawn: gives the recipes of draw 0, 1, … Returns draw 0 where none of the first few differs.
    """
    seen = list(map(numbers, decoys))
    draws = map(drawn, range(_MOST_DRAWS))
    return next((recipes for recipes in draws if not _are_alike(recipes, decoys, seen, numbers)), drawn(0))


def _are_alike(
    recipes: Sequence[Recipe], decoys: Sequence[Recipe], seen: Sequence[tuple[bytes, ...]], numbers: Numbers
) -> bool:
    found = [*map(numbers, recipes)]
    beside_decoys = zip(recipes, found, decoys, seen, strict=True)
    if any(one.seed != decoy.seed and mine == theirs for one, mine, decoy, theirs in beside_decoys):
        return True
    return any(
        one.seed != other.seed and (one.part, one.case) == (other.part, other.case) and mine == theirs
        for (one, mine), (other, theirs) in combinations(zip(recipes, found, strict=True), 2)
    )
