"""Pairwise testing: a few cases of a space in which as many pairs of values as possible meet.

Most defects show when two particular values come together, so that a small set of cases that covers every pair finds
nearly what all combinations would (D. R. Kuhn, D. R. Wallace and A. M. Gallo, "Software Fault Interactions and
Implications for Software Testing", IEEE TSE 30(6), 2004). Lengths count as least, short, middling or long here, because
kernels branch on such ranges. Half of them are multiples of a power of two: some tiles divide them, larger ones do not.
"""

from __future__ import annotations

from itertools import combinations
from random import Random

from grader.exercise.cases import Case, Domain, Size, Space, Value

CANDIDATES = 200
# Round lengths are multiples of these: as wide as tiles are.
GRAINS = (16, 32, 64, 128, 256, 512, 1024)

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
    return chosen


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
