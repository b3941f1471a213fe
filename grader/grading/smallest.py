"""Search for the smallest failing case, with Hypothesis and within a budget.

Takes a space, a failing case, how it failed and a function that runs a case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.errors import HypothesisException

from grader.exercise.cases import Case, Choice, Size, Space
from grader.exercise.strategies import shrinking_strategy

# Enough examples to find a failing case again and to halve every axis a dozen times; the budget is only a backstop.
_MOST_TRIALS = 150


@dataclass(frozen=True)
class Smallest:
    """The smallest failing case that was found.

    passes: neighbours that pass, in words; not those that fail in another way. tried: number of cases that ran.
    """

    case: Case
    passes: str
    tried: int


def smallest(
    space: Space, first: Case, manner: str, manner_of: Callable[[Case], str], is_spent: Callable[[], bool]
) -> Smallest:
    """Shrink `first` within the part of `space` in which no axis is harder.

    manner: how `first` failed; a smaller case must fail in the same manner. manner_of: runs a case, and returns how it
    failed, or "" if it passed. is_spent: no further case may run.
    """
    known = {first: manner}

    def still_fails(case: Case) -> bool:
        if case not in known:
            if len(known) > _MOST_TRIALS or is_spent():
                return False
            known[case] = manner_of(case)
        return known[case] == manner

    best = _find(space.up_to(first), still_fails) or _simplest(space, [one for one in known if still_fails(one)])
    passes = _passing_neighbour(space, best, still_fails, known)
    return Smallest(best, passes, len(known) - 1)


def _find(space: Space, still_fails: Callable[[Case], bool]) -> Case | None:
    chosen = settings(
        max_examples=_MOST_TRIALS,
        phases=[Phase.generate, Phase.shrink],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    try:
        return find(shrinking_strategy(space), still_fails, settings=chosen, random=Random(0))
    except HypothesisException:
        # No failing case was found again within the budget, or the failure is intermittent.
        return None


def _simplest(space: Space, failing: list[Case]) -> Case:
    return min(failing, key=lambda case: [_rank(space, name, case) for name in space.axes])


def _rank(space: Space, name: str, case: Case) -> int:
    domain = space.axes[name]
    return domain.values.index(case[name]) if isinstance(domain, Choice) else int(case[name])


def _passing_neighbour(space: Space, case: Case, still_fails: Callable[[Case], bool], known: dict[Case, str]) -> str:
    """Return the nearest simpler case that passes along each axis, in words."""
    words = []
    for name, domain in space.axes.items():
        if case[name] == domain.simplest:
            continue
        if isinstance(domain, Size):
            neighbour = case.changed(**{name: int(case[name]) - domain.multiple_of})
        else:
            neighbour = case.changed(**{name: domain.values[domain.values.index(case[name]) - 1]})
        if space.allows(neighbour) and not still_fails(neighbour) and known.get(neighbour) == "":
            words.append(f"{name}={neighbour[name]}")
    return " and for ".join(words[:2])
