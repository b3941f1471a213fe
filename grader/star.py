"""A star: from small cases, one length at a time goes far beyond any block, and meets every other choice on the way.

What `covering` draws stays in the middle: where one case must not cost much, the lengths share what is allowed. On an
arm of a star one length takes all of it: many rows of few columns, one row that is very long, seventy heads of three
tokens. Each point has other values on the other axes, so that a far end meets every dtype and every layout.
"""

from __future__ import annotations

from itertools import combinations
from random import Random

from grader.model.cases import Case, Choice, Size, Space, Value

# So many points are drawn for each arm, of which those are taken in which most meets for the first time.
CANDIDATES = 40
# How many steps above its least value a length is where it is not the arm's own.
NEAR = 3
# An arm ends in the last part of what is allowed: this share of it.
LAST = 8

Met = tuple[str, Value]


def star(space: Space, count: int, seed: int, without: frozenset[Case] = frozenset()) -> list[Case]:
    """At most `count` cases, none in `without`: in turns one of every axis that is a Size, at its far end.

    The far end is the longest that the space allows beside the short lengths of the other axes. The same space, count
    and seed give the same cases.
    """
    random = Random(seed)  # noqa: S311 (nothing here is a secret)
    arms = [name for name, domain in space.axes.items() if isinstance(domain, Size) and domain.high > domain.low]
    covered: set[frozenset[Met]] = set()
    chosen: dict[Case, None] = {}
    for place in range(count if arms else 0):
        arm = arms[place % len(arms)]
        drawn = (_point(space, arm, random) for _ in range(CANDIDATES))
        points = [case for case in drawn if case is not None and case not in without and case not in chosen]
        if points:
            best = max(points, key=lambda case: len(_meeting(space, arm, case) - covered))
            covered |= _meeting(space, arm, best)
            chosen[best] = None
    return list(chosen)


def _point(space: Space, arm: str, random: Random) -> Case | None:
    """A case with a long `arm`; None where the space allows none beside the other axes' values that were drawn."""
    drawn = {name: _near(domain, random) for name, domain in space.axes.items()}
    domain = space.axes[arm]
    assert isinstance(domain, Size)
    longest = _longest(space, arm, domain, drawn)
    if longest is None:
        return None
    # Anywhere in the last part of it: an end that a power of two divides hides what a remainder would show.
    steps = (longest - max(domain.low, longest - longest // LAST)) // domain.multiple_of
    case = Case({**drawn, arm: longest - int(random.random() * (steps + 1)) * domain.multiple_of})
    return case if space.allows(case) else None


def _near(domain: Size | Choice, random: Random) -> Value:
    if isinstance(domain, Choice):
        return domain.values[int(random.random() * len(domain.values))]
    steps = min((domain.high - domain.low) // domain.multiple_of, NEAR)
    return domain.low + int(random.random() * (steps + 1)) * domain.multiple_of


def _longest(space: Space, arm: str, domain: Size, drawn: dict[str, Value]) -> int | None:
    """The largest of the lengths that halving finds allowed, from the longest down; None where none is."""

    def allowed(steps: int) -> bool:
        return space.allows(Case({**drawn, arm: domain.low + steps * domain.multiple_of}))

    forbidden = (domain.high - domain.low) // domain.multiple_of
    if allowed(forbidden):
        return domain.low + forbidden * domain.multiple_of
    least = forbidden
    while least and not allowed(least):
        forbidden, least = least, least // 2
    if not allowed(least):
        return None
    while forbidden - least > 1:
        middle = (least + forbidden) // 2
        least, forbidden = (middle, forbidden) if allowed(middle) else (least, middle)
    return domain.low + least * domain.multiple_of


def _meeting(space: Space, arm: str, case: Case) -> frozenset[frozenset[Met]]:
    """The pairs that meet in a case: of choices, and of the arm with each of them."""
    choices = [(name, case[name]) for name, domain in space.axes.items() if isinstance(domain, Choice)]
    return frozenset(frozenset(pair) for pair in combinations([("", arm), *choices], 2))
