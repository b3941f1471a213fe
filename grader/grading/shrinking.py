"""Find the case of a failing check to show: the smallest that fails in the same way, within a budget of time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import monotonic

from grader.exercise.cases import INTERPRETED_VOLUME, Case, Space
from grader.exercise.plan import PlannedCase, PlannedCheck
from grader.exercise.replay_token import ReplayToken
from grader.grading.job import Job
from grader.grading.smallest import smallest
from grader.judge.bench import Bench
from grader.judge.failure import Failure
from grader.judge.rules import failure_of, shrinkable
from grader.record.causes import Counterexample
from grader.timeline import spent

# What the search may take. Seconds in which processes work count, so that a busy machine shows the same case.
_CHECK_S = 2.0
_GRADING_S = 5.0
# So many seconds on the clock count as one in any case: the oracle takes some that are not counted. On a GPU, nearly
# all of them pass while kernels compile.
_PATIENCE, _PATIENCE_ON_GPU = 10.0, 3.0


@dataclass(frozen=True)
class Least:
    """The case of a failing check to show, and its failure; None for the given case."""

    shown: Counterexample
    failure: Failure | None = None


class Shrinking:
    """The search for small failing cases in one grading, within its time per check and in all."""

    def __init__(self, job: Job) -> None:
        self._exercise = job.entry.id
        self._left_s = _GRADING_S if job.shrink else 0.0

    def least(self, bench: Bench, planned: PlannedCheck, failure: Failure, failing: PlannedCase) -> Least | None:
        """Return the smallest case found that fails as `failing` does; None where nothing is implemented.

        On a GPU, search in the interpreter where `failing` fails there too: it compiles nothing.
        """
        if failure.status == "not_implemented":
            return None
        found = Least(self._unshrunk(planned, failing))
        budget_s = min(_CHECK_S, self._left_s)
        if planned.space is None or budget_s <= 0 or not shrinkable(planned, failure):
            return found
        space = _space_of(planned, failing.case) or planned.space
        with bench.findings.aside(), spent("find the smallest failing case"):
            quick = _quickest(bench, planned, failure, failing)
            patience = _PATIENCE if quick.device == "cpu" else _PATIENCE_ON_GPU
            started_s, worked_s = monotonic(), quick.pair.worked_s

            def spent_s() -> float:
                return max(quick.pair.worked_s - worked_s, (monotonic() - started_s) / patience)

            def manner_of(case: Case) -> str:
                return manner(failure_of(quick, planned, replace(failing, case=case)))

            least = smallest(space, failing.case, manner(failure), manner_of, lambda: spent_s() > budget_s)
            smaller = replace(failing, case=least.case)
            again = failure_of(bench, planned, smaller)
        self._left_s -= spent_s()
        if again is None or manner(again) != manner(failure):
            return found
        shown = replace(
            self._unshrunk(planned, smaller), rationale=again.cause.rationale, passes=least.passes, tried=least.tried
        )
        return Least(shown, None if smaller == failing else again)

    def _unshrunk(self, planned: PlannedCheck, one: PlannedCase) -> Counterexample:
        token = ReplayToken(self._exercise, planned.id, one.case, one.seed)
        return Counterexample(dict(one.case), one.case.words(), str(token))


def manner(failure: Failure | None) -> str:
    """Return how a case fails, in a word; "" for one that passes.

    A kernel with two mistakes, one of which changes only the last bits, is not to be shrunk from the one to the other.
    """
    if failure is None:
        return ""
    return f"{failure.status}{' slightly' if failure.is_slight else ''}"


def _quickest(bench: Bench, planned: PlannedCheck, failure: Failure, failing: PlannedCase) -> Bench:
    """Return the bench on which to search: on a GPU, the interpreter's if the case fails there for the same cause."""
    if bench.interpreter is None or failing.case.volume > INTERPRETED_VOLUME:
        return bench
    interpreted = bench.interpreted()
    repeated = failure_of(interpreted, planned, failing)
    if repeated is None or manner(repeated) != manner(failure):
        return bench
    return interpreted if repeated.cause.kind == failure.cause.kind else bench


def _space_of(planned: PlannedCheck, case: Case) -> Space | None:
    """Return the space that a planned case was drawn from."""
    return planned.check.cases.around(case) if planned.check.cases else None
