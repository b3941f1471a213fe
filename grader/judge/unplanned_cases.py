"""Find calls of earlier checks that count for a later check too.

The evidence shows what they did; calls that seem to do too much are repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.exercise.cases import Case, Space
from grader.exercise.plan import PlannedCase
from grader.judge.evidence import Evidence

# At most this many are repeated; one that fails is enough.
_MOST = 2


def find_unplanned_cases(
    evidence: Sequence[Evidence], cases: Sequence[PlannedCase], space: Space, looks_wrong: Callable[[Evidence], bool]
) -> list[PlannedCase]:
    """Return the first cases of the evidence, in the space and not planned, that look wrong."""
    known = {one.case for one in cases}
    found: dict[Case, PlannedCase] = {}
    for seen in evidence:
        if seen.was_replayed and seen.case not in known and looks_wrong(seen) and space.holds(seen.case):
            found.setdefault(seen.case, PlannedCase(seen.case, seen.seed))
        if len(found) == _MOST:
            break
    return list(found.values())
