"""The request for one grading."""

from __future__ import annotations

from dataclasses import dataclass

from grader.exercise.catalogue import Entry
from grader.exercise.plan import Plan


@dataclass(frozen=True)
class Job:
    """The request for one grading: submission, exercise and plan.

    path: shown only. source: runs. timed: judge speed, where there is a GPU. slow_baselines: those to time although
    they take seconds to compile. compiled: compile kernels for the record. patience_s: how long the finished record
    waits for these compilations; short for somebody who edits and grades again. owner: gradings with the same owner
    share compiled kernels (grader.sandbox.kernel_cache); no record names it. diagnosed: search for the causes of
    failures, which makes further calls. first_failure: a comparison of values ends with its first failing case; for
    somebody who asks only whether a check fails.
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
    slow_baselines: tuple[str, ...] = ()
    compiled: bool = True
    patience_s: float = 3.0
    owner: str = ""
    diagnosed: bool = True
    first_failure: bool = False
