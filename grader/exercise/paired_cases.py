"""Plan pairs of cases: two of the same lengths, one after the other, that differ in a single choice.

Launch code that keeps a plan, a kernel or a scale by the shape alone is right in the first of the two and wrong in the
second. Both orders are planned, each with lengths of its own: a plan for float32 may also be right for float16.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from grader.exercise.cases import Case, Choice, Domain, Size, Space, Value

# Lengths are so many steps above the least: few, and more than one of each axis.
_FEWEST, _SPREAD = 3, 8
# So many times lengths are drawn until the space allows both cases.
_TRIES = 200


def paired_cases(space: Space, axes: Sequence[str], seed: int, without: frozenset[Case] = frozenset()) -> list[Case]:
    """Return four cases for each of the axes, where the space allows them: each order of two choices.

    axes: names of axes that are a Choice. One with a single value has none. Other choices have their simplest value;
    numbers of batches or heads, which may be choices too, are drawn.
    The same space, axes and seed give the same cases; none of them is in `without`.
    """
    random = Random(seed)  # noqa: S311 (nothing here is a secret)
    found: dict[Case, None] = {}
    for axis in axes:
        domain = space.axes[axis]
        values = domain.values if isinstance(domain, Choice) else ()
        others = [value for value in values if value != values[0]]
        if others:
            pair = values[0], others[int(random.random() * len(others))]
            for order in (pair, pair[::-1]):
                found.update(dict.fromkeys(_pair(space, axis, order, random, {*without, *found})))
    return list(found)


def _pair(space: Space, axis: str, order: tuple[Value, Value], random: Random, known: set[Case]) -> list[Case]:
    """Return two cases of the same lengths, in this order of the axis's values; none where no lengths were found."""
    for _ in range(_TRIES):
        drawn = Case({name: _drawn(domain, random) for name, domain in space.axes.items()})
        pair = [drawn.changed(**{axis: value}) for value in order]
        if all(space.holds(one) and one not in known for one in pair):
            return pair
    return []


def _drawn(domain: Domain, random: Random) -> Value:
    if not isinstance(domain, Size):
        is_number = all(type(value) is int for value in domain.values)
        return domain.values[int(random.random() * len(domain.values))] if is_number else domain.simplest
    steps = min((domain.high - domain.low) // domain.multiple_of, _FEWEST + int(random.random() * _SPREAD))
    return domain.low + steps * domain.multiple_of
