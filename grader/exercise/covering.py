"""Pairwise testing: a few cases of a space in which as many pairs of values as possible meet.

Most defects show when two particular values come together, so that a small set of cases that covers every pair finds
nearly what all combinations would (D. R. Kuhn, D. R. Wallace and A. M. Gallo, "Software Fault Interactions and
Implications for Software Testing", IEEE TSE 30(6), 2004). Lengths count as least, short, middling or long here, because
kernels branch on such ranges. Half of them are multiples of a power of two: some tiles divide them, larger ones do not.
Each axis gets an odd multiple of every such power that it has room for: code that asks for the wrong divisor, to leave
out a mask, is right for all other lengths.
"""

from __future__ import annotations

from itertools import combinations
from random import Random

from grader.exercise.cases import Case, Domain, Size, Space, Value

CANDIDATES = 200
# Round lengths are multiples of these: as wide as tiles are.
GRAINS = (8, 16, 32, 64, 128, 256, 512, 1024)
# How many odd multiples are tried in a case, whose other lengths may allow only some.
_TRIES = 3

Met = tuple[str, Value]


def covering(space: Space, count: int, seed: int, without: frozenset[Case] = frozenset()) -> list[Case]:
    """Return at most `count` cases, none in `without`; each adds as many new pairs as a sample of the space allows.

    Returns fewer if no case of the sample adds a pair. The same space, count and seed give the same cases.
    """
    sample = _sample(space, seed, without) if count else {}
    chosen: list[Case] = []
    covered: set[tuple[Met, Met]] = set()
    while sample and len(chosen) < count:
        best = max(sample, key=lambda case: len(sample[case] - covered))
        if sample[best] <= covered:
            break
        covered |= sample.pop(best)
        chosen.append(best)
    return _with_odd_multiples(chosen, space, seed, without)


def _with_odd_multiples(chosen: list[Case], space: Space, seed: int, without: frozenset[Case]) -> list[Case]:
    """Return the cases with an odd multiple of each grain among the lengths of each axis, where the space allows one.

    A length stays in its range, so that the same pairs meet. At most half of an axis's lengths are such multiples.
    """
    random = Random(seed)  # noqa: S311 (nothing here is a secret)
    cases = list(chosen)
    for name, domain in space.axes.items():
        if not isinstance(domain, Size):
            continue
        free = random.sample(range(len(cases)), len(cases))
        for grain in random.sample(GRAINS, len(GRAINS)):
            shown = [place for place in free if _is_odd_multiple(int(cases[place][name]), grain)]
            others = (
                (place, other)
                for place in free
                for other in _at_odd_multiples(cases[place], name, domain, grain, random)
                if space.allows(other) and other not in without and other not in cases
            )
            found = (shown[0], cases[shown[0]]) if shown else next(others, None)
            if found and 2 * len(free) > len(cases):
                place, cases[place] = found
                free.remove(place)
    return cases


def _is_odd_multiple(length: int, grain: int) -> bool:
    return length > grain and length % (2 * grain) == grain


def _at_odd_multiples(case: Case, name: str, domain: Size, grain: int, random: Random) -> list[Case]:
    """Return the case with a few odd multiples of the grain, 3 times and more, in the range of its length."""
    least, most = next(bounds for bounds in _bounds(domain) if int(case[name]) <= bounds[1])
    first = max(3, (least + grain - 1) // grain | 1)
    lengths = range(first * grain, most + 1, 2 * grain)
    drawn = random.sample(lengths, min(_TRIES, len(lengths)))
    return [Case({**case, name: length}) for length in drawn if length in domain]


def _sample(space: Space, seed: int, without: frozenset[Case]) -> dict[Case, frozenset[tuple[Met, Met]]]:
    """Return allowed cases, with the pairs that meet in each. Every range of an axis is equally likely."""
    random = Random(seed)  # noqa: S311 (nothing here is a secret)
    found: dict[Case, frozenset[tuple[Met, Met]]] = {}
    # A case that `where` forbids is drawn again, but not for ever.
    for _ in range(20 * CANDIDATES):
        case = Case({name: _any(domain, random) for name, domain in space.axes.items()})
        if case not in without and space.allows(case):
            met = [(name, _regime(domain, case[name])) for name, domain in space.axes.items()]
            found.setdefault(case, frozenset(combinations(met, 2)))
        if len(found) == CANDIDATES:
            break
    return found


def _any(domain: Domain, random: Random) -> Value:
    if not isinstance(domain, Size):
        return domain.values[int(random.random() * len(domain.values))]
    bounds = _bounds(domain)
    least, most = bounds[int(random.random() * len(bounds))]
    steps = (most - least) // domain.multiple_of
    length = least + int(random.random() * (steps + 1)) * domain.multiple_of
    grain, is_round = GRAINS[int(random.random() * len(GRAINS))], random.random() < 0.5
    rounded = length // grain * grain
    return rounded if is_round and rounded >= least and rounded in domain else length


def _regime(domain: Domain, value: Value) -> Value:
    """Return the value itself; for a length, the index of the range that it lies in."""
    if not isinstance(domain, Size):
        return value
    return next(place for place, (_, most) in enumerate(_bounds(domain)) if int(value) <= most)


def _bounds(domain: Size) -> list[tuple[int, int]]:
    """Return the first and last of the least, short, middling and long lengths.

    They are the least alone, the lowest sixteenth, the rest of the lower half, and the upper half. A narrow domain has
    fewer ranges.
    """
    steps = (domain.high - domain.low) // domain.multiple_of
    ends = sorted({0, steps // 16, steps // 2, steps})
    starts = [0, *(end + 1 for end in ends)]
    return [
        (domain.low + start * domain.multiple_of, domain.low + end * domain.multiple_of)
        for start, end in zip(starts, ends, strict=False)
    ]
