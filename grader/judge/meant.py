"""Calls of earlier checks that a later check means as well: what they did is known, and it looked like too much."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.exercise.cases import Case, Space
from grader.exercise.plan import PlannedCase
from grader.judge.bench import Evidence

# So many are made once more; one that fails is enough.
_MOST = 2


def meant_as_well(
    evidence: Sequence[Evidence], cases: Sequence[PlannedCase], space: Space, looks_wrong: Callable[[Evidence], bool]
) -> list[PlannedCase]:
    """Return the first cases of the evidence, in the space and not planned, that look wrong."""
    known = {one.case for one in cases}
    found: dict[Case, PlannedCase] = {}
    for seen in evidence:
        if seen.is_replayed and seen.case not in known and looks_wrong(seen) and space.holds(seen.case):
            found.setdefault(seen.case, PlannedCase(seen.case, seen.seed))
        if len(found) == _MOST:
            break
    return list(found.values())
