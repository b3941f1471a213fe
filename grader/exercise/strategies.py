"""Draw cases from a space by Hypothesis, and give the strategy by which failing cases shrink.

Only this module and grader.grading.smallest import Hypothesis.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.errors import Unsatisfiable

from grader.errors import SpecError
from grader.exercise.cases import Case, Choice, Domain, Space, Value

# Hypothesis stores its examples in a folder; it must not be the learner's working directory.
set_hypothesis_home_dir(Path(tempfile.gettempdir()) / f"grade-hypothesis-{os.getuid()}")

_PRIMES = (2, 3, 5, 7, 13, 31, 61, 127, 251, 509, 1021, 2039, 4093, 8191, 16381)


def generated_cases(name: str, space: Space, count: int, seed: int, without: frozenset[Case]) -> list[Case]:
    """Return up to `count` distinct cases of the space, none of them in `without`."""
    found: dict[Case, None] = {}
    if count == 0:
        return []

    # Hypothesis starts at the simplest case and repeats itself in small spaces: ask for more cases than needed.
    @hypothesis_seed(seed)
    @settings(
        max_examples=2 * count + 4,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy(space))
    def collect(case: Case) -> None:
        if case not in without:
            found.setdefault(case)

    try:
        collect()
    except Unsatisfiable:
        raise SpecError(f"{name}: the space's `where` must allow some case, got none in {space.axes}") from None
    return list(found)[-count:]


def strategy(space: Space) -> st.SearchStrategy[Case]:
    """Return a Hypothesis strategy for drawing: sizes at primes, powers of two and their neighbours."""
    return _cases(space, {name: _drawn(domain) for name, domain in space.axes.items()})


def shrinking_strategy(space: Space) -> st.SearchStrategy[Case]:
    """Return a Hypothesis strategy for shrinking: every axis moves freely towards its simplest value."""
    return _cases(space, {name: _ordered(domain) for name, domain in space.axes.items()})


def _cases(space: Space, axes: Mapping[str, st.SearchStrategy[Value]]) -> st.SearchStrategy[Case]:
    def in_order(drawn: dict[str, Value]) -> Case:
        return Case({name: drawn[name] for name in space.axes})

    return st.fixed_dictionaries(dict(axes)).map(in_order).filter(space.allows)


def _drawn(domain: Domain) -> st.SearchStrategy[Value]:
    if isinstance(domain, Choice):
        return _index(len(domain.values)).map(lambda place: domain.values[place])
    awkward = [size for size in _awkward_sizes(domain.high) if size in domain]
    step, low = domain.multiple_of, domain.low
    anywhere = _index((domain.high - low) // step + 1).map(lambda count: low + count * step)
    if not awkward:
        return anywhere
    among = _index(len(awkward)).map(lambda place: awkward[place])
    return st.booleans().flatmap(lambda odd: among if odd else anywhere)


def _index(count: int) -> st.SearchStrategy[int]:
    """Return a strategy for 0 … count-1, built from single bits.

    Hypothesis mixes constants of all imported modules into integers and into choices among values, but not into bits.
    Only with bits does a plan depend on nothing but its seed.
    """
    bits = (count - 1).bit_length() + 4

    def scaled(drawn: list[bool]) -> int:
        return sum(bit << place for place, bit in enumerate(drawn)) * count >> bits

    return st.lists(st.booleans(), min_size=bits, max_size=bits).map(scaled)


def _ordered(domain: Domain) -> st.SearchStrategy[Value]:
    if isinstance(domain, Choice):
        return st.sampled_from(domain.values)
    step = domain.multiple_of
    return st.integers(domain.low // step, domain.high // step).map(lambda count: count * step)


def _awkward_sizes(high: int) -> list[int]:
    powers = [2**exponent + off for exponent in range(high.bit_length()) for off in (-1, 0, 1)]
    return sorted({1, *_PRIMES, *powers})
