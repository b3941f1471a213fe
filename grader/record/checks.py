"""Define the results of checks, and the parts that they belong to."""

from __future__ import annotations

from dataclasses import dataclass, field

from grader.record.causes import Cause, Counterexample
from grader.record.json_numbers import Number
from grader.record.kernels import CompiledKernel
from grader.record.launches import Coverage, Grid
from grader.record.speed import Speed
from grader.record.statuses import Status
from grader.record.work import Prediction, Work

# The evidence of a check on choices that names the cases in which they cost most.
DEAREST_GROUP = "dearest group"


@dataclass(frozen=True)
class Selection:
    """The choices of a part that chooses, and what each possible choice costs.

    ratios: costs by case and thing, each over its case's least (-1: not known). chosen: the index of the choice in
    every case, -1 if the choice was not offered. source: where the costs come from.
    """

    cases: tuple[str, ...]
    things: tuple[str, ...]
    ratios: tuple[tuple[float, ...], ...]
    chosen: tuple[int, ...]
    source: str = ""


@dataclass(frozen=True)
class CheckResult:
    """One line of the scorecard.

    `reason` is a sentence for every status but pass; `notes` say what was left out.
    """

    id: str
    part: str
    title: str
    objective: str
    status: Status
    points: float
    max_points: float
    duration_s: float = 0.0
    reason: str = ""
    notes: tuple[str, ...] = ()
    cause: Cause | None = None
    counterexample: Counterexample | None = None
    evidence: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, Number] = field(default_factory=dict)
    speed: Speed | None = None
    work: tuple[Work, ...] = ()
    predictions: tuple[Prediction, ...] = ()
    selection: Selection | None = None

    @property
    def passed_in_part(self) -> bool:
        """Return whether it passed without earning all its points."""
        return self.status == "pass" and self.points < self.max_points

    @property
    def judged_work(self) -> tuple[Work, ...]:
        """Return the counted cases without those that only serve predictions."""
        return tuple(work for work in self.work if not work.models_size)


@dataclass(frozen=True)
class PartInfo:
    """A part's heading on the scorecard, the compiled forms of its kernels, and what their programs touch.

    uncompiled: the reason why kernels are missing, by GPU. coverage: of a call that shows it well. grids: of the timed
    sizes that could be recorded.
    """

    name: str
    title: str
    kernels: tuple[CompiledKernel, ...] = ()
    uncompiled: dict[str, str] = field(default_factory=dict)
    coverage: Coverage | None = None
    grids: tuple[Grid, ...] = ()
