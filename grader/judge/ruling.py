"""The decision of a rule about one check."""

from __future__ import annotations

from dataclasses import dataclass, field

from grader.exercise.plan import PlannedCase
from grader.judge.failure import Failure
from grader.record.checks import Selection
from grader.record.json_numbers import Number
from grader.record.work import Work


@dataclass(frozen=True)
class Ruling:
    """The decision of a rule.

    failing: the first failing case, to be shrunk and replayed. undecided: why there is no decision. unfit:
    why this machine cannot decide. share: of the points. alike: failures of other cases, for the diagnosis. notes:
    cases that were left out.
    """

    failure: Failure | None
    failing: PlannedCase | None = None
    evidence: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, Number] = field(default_factory=dict)
    work: tuple[Work, ...] = ()
    undecided: str = ""
    unfit: str = ""
    selection: Selection | None = None
    share: float = 1.0
    alike: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()
