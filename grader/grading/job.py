"""The request for one grading."""

from __future__ import annotations

from dataclasses import dataclass

from grader.exercise.catalogue import Entry
from grader.exercise.plan import Plan


@dataclass(frozen=True)
class Job:
    """One grading: what is graded, against what, by which plan. `path` is shown; `source` is what runs.

    timed: whether speed is judged, where there is a GPU; all_baselines: also beside baselines that are slow to compile;
    compiled: whether kernels are compiled for the record; patience_s: how long, when all else is judged, the record is
    waited with for what they are compiled to (moments, for somebody who edits and grades again). owner: whose compiled
    kernels it shares (grader.sandbox.kernels); no record names them.
    """

    entry: Entry
    path: str
    source: str
    plan: Plan
    command: str
    graded_at: str
    shrink: bool = True
    student: str = ""
    timed: bool = True
    all_baselines: bool = False
    compiled: bool = True
    patience_s: float = 3.0
    owner: str = ""
