"""Plan a star of cases: each has one length far beyond any block, and together they meet all other choices.

Cases of `covering` stay in the middle: a case must not cost much, so the lengths share what is allowed. On an arm of a
star one length takes all of it: many rows of few columns, one very long row, seventy heads of three tokens. Each point
has other values on the other axes, so that a far end meets every dtype and every layout. In a second turn another
length is middling: twenty heads of two hundred tokens.

No arm reaches cases in which all lengths are long and none is the longest. There a kernel for large problems takes
over, with tiles that small ones do not have. The points `together` lie there: all lengths grow at a time, some of them
several times as fast as others, as far as the space allows.
"""

from __future__ import annotations

from itertools import combinations
from random import Random

from grader.exercise.cases import Case, Choice, Size, Space, Value

# The number of points drawn for each arm. The one in which most pairs meet for the first time is taken.
CANDIDATES = 100
# The most steps above its least value for a length that is not the arm's own, and the most steps more for a middling
# one.
NEAR = 3
MIDDLING = 24
# An arm ends in the last 1/LAST of the allowed length.
LAST = 8
# A point is dropped if its arm is shorter than this share of the longest one drawn: beside four heads a length is a
# quarter of what it can be.
REACH = 0.75
# The relative lengths of the axes, where all grow together.
SHARES = (1.0, 0.5, 0.25, 0.125, 0.0625)

Met = tuple[str, Value]


def star_cases(
    space: Space, count: int, seed: int, without: frozenset[Case] = frozenset(), *, together: int = 0
) -> list[Case]:
    """Return at most `count` cases with one long length each, then at most `together` with all lengths long.

    The axes that are a Size take turns, the one that may be longest first. None of the cases is in `without`. The far
    end is the longest length that the space allows beside short lengths of the other axes; the short lengths are chosen
    so that it comes near the most. From the second turn on, one of the others is middling instead of short. The same
    space, counts and seed give the same cases.
    """
    random = Random(seed)  # noqa: S311 (nothing here is a secret)
    sizes = {
        name: domain for name, domain in space.axes.items() if isinstance(domain, Size) and domain.high > domain.low
    }
    # Where the count is no multiple of the axes', the longest ones have a further case.
    arms = sorted(sizes, key=lambda name: -sizes[name].high)
    covered: set[frozenset[Met]] = set()
    chosen: dict[Case, None] = {}
    for place in range(count + together if arms else 0):
        arm = arms[place % len(arms)] if place < count else ""
        # In a second turn another length is no longer short: no single arm shows what two lengths decide together.
        others = [name for name in arms if name != arm] if len(arms) <= place < count else []
        beside = others[int(random.random() * len(others))] if others else ""
        drawn = (_point(space, arm, random, beside) if arm else _far(space, arms, random) for _ in range(CANDIDATES))
        points = [case for case in drawn if case is not None and case not in without and case not in chosen]
        if points:
            longest = max(int(case[arm]) for case in points) if arm else 0
            far = [case for case in points if beside or not arm or int(case[arm]) >= REACH * longest]
            best = max(far, key=lambda case: len(_meeting(space, arm, case) - covered))
            covered |= _meeting(space, arm, best)
            chosen[best] = None
    return list(chosen)


def _point(space: Space, arm: str, random: Random, beside: str = "") -> Case | None:
    """Return a case with a long `arm`, and a middling `beside`; None if the space allows none with the drawn values."""
    drawn = {name: _near(domain, random) for name, domain in space.axes.items()}
    if isinstance(middling := space.axes.get(beside), Size):
        steps = min((middling.high - middling.low) // middling.multiple_of, NEAR + 1 + int(random.random() * MIDDLING))
        drawn[beside] = middling.low + steps * middling.multiple_of
    domain = space.axes[arm]
    assert isinstance(domain, Size)
    longest = _longest(space, arm, domain, drawn)
    if longest is None:
        return None
    # Anywhere in the last part of it: an end that a power of two divides hides what a remainder would show.
    steps = (longest - max(domain.low, longest - longest // LAST)) // domain.multiple_of
    case = Case({**drawn, arm: longest - int(random.random() * (steps + 1)) * domain.multiple_of})
    return case if space.allows(case) else None


def _far(space: Space, arms: list[str], random: Random) -> Case | None:
    """Return a case in which all lengths are long; None if the space allows none with the drawn values."""
    drawn = {name: _near(domain, random) for name, domain in space.axes.items()}
    drawn_shares = [SHARES[int(random.random() * len(SHARES))] for _ in arms]
    shares = {name: share / max(drawn_shares) for name, share in zip(arms, drawn_shares, strict=True)}
    cut = {name: 1 - random.random() / LAST for name in arms}

    def grown(scale: float) -> Case:
        return Case({**drawn, **{name: _scaled(space.axes[name], scale * shares[name]) for name in arms}})

    # Half as long, and half as long again, until it is allowed; then as much of the last doubling as is.
    scale = float(max(domain.high for domain in space.axes.values() if isinstance(domain, Size)))
    while scale >= 1 and not space.allows(grown(scale)):
        scale /= 2
    step = scale / 2
    for _ in range(8):
        scale, step = (scale + step if space.allows(grown(scale + step)) else scale), step / 2
    longest = grown(scale)
    case = Case({**longest, **{name: _scaled(space.axes[name], int(longest[name]) * cut[name]) for name in arms}})
    return case if space.allows(case) else None


def _scaled(domain: Size | Choice, length: float) -> int:
    """Return the longest length of the domain up to that one, or its least."""
    assert isinstance(domain, Size)
    steps = int(min(max(length, domain.low), domain.high) - domain.low) // domain.multiple_of
    return domain.low + steps * domain.multiple_of


def _near(domain: Size | Choice, random: Random) -> Value:
    if isinstance(domain, Choice):
        return domain.values[int(random.random() * len(domain.values))]
    steps = min((domain.high - domain.low) // domain.multiple_of, NEAR)
    return domain.low + int(random.random() * (steps + 1)) * domain.multiple_of


def _longest(space: Space, arm: str, domain: Size, drawn: dict[str, Value]) -> int | None:
    """Return the longest length that bisection finds allowed; None if it finds none."""

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
    """Return the pairs that meet in a case: of choices, and of the arm with each of them."""
    choices = [(name, case[name]) for name, domain in space.axes.items() if isinstance(domain, Choice)]
    return frozenset(frozenset(pair) for pair in combinations([("", arm), *choices], 2))
