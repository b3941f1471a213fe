"""What a rule decides."""

from __future__ import annotations

from dataclasses import dataclass, field

from grader.exercise.plan import PlannedCase
from grader.judge.failures import Failure
from grader.record import Number, Selection, Work


@dataclass(frozen=True)
class Ruling:
    """A rule's decision. `failing` is the first case that failed: the one to shrink and to replay. `undecided` says why
    nothing could be decided, where that is so; `unfit` why this machine cannot. `share` is that of the points;
    `alike` are failures of other cases, for whoever looks for what they have in common. `notes` say what was left out.
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
