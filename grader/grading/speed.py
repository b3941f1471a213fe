"""Judges speed, of the parts with right answers that their own kernels give; and puts predictions beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from time import monotonic

from grader import machine
from grader.grading.answers import Answers
from grader.grading.job import Job
from grader.grading.results import grader_failed, result_of
from grader.model.exercise import Part, SpeedBand
from grader.plan import PlannedCheck
from grader.record import CheckResult, Status
from grader.sandbox.session import Session
from grader.speed import prediction
from grader.speed.stadium import Stadium, Timed
from grader.speed.suite import Suite


class Speed:
    """Of one grading."""

    def __init__(self, job: Job, session: Session, stadium: Stadium, answers: Answers) -> None:
        self._job = job
        self._session = session
        self._stadium = stadium
        self._answers = answers

    def is_timed(self, planned: PlannedCheck) -> bool:
        """Whether a check, here, is one on speed."""
        return isinstance(planned.check.rule, SpeedBand) and self._stadium.anchor is not None and not planned.unfit

    def has_something_to_time(self) -> bool:
        """Whether some part's answers are right, and its speed is asked for."""
        return any(self.is_timed(one) and not self._unfit(one.part) for one in self._job.plan.checks)

    def results(self) -> Iterator[CheckResult]:
        """Judge the speed checks of all parts, whose answers have been judged."""
        planned = [one for one in self._job.plan.checks if self.is_timed(one)]
        timed = [(one, self._timed(one)) for one in planned]
        # Whatever the submission left running ends here; the baselines are then timed once more, by themselves.
        if timed:
            self._session.restart()
        for one, found in timed:
            yield self._confirmed(one, found) if isinstance(found, Timed) else found

    def predicted(
        self, planned: PlannedCheck, found: Mapping[str, CheckResult], gpu: machine.Gpu | None
    ) -> CheckResult:
        """The check's result; for a check on speed, of a part with right answers, with what the roofline predicts."""
        result, band = found[planned.id], planned.check.rule
        if not isinstance(band, SpeedBand) or self._answers.unfit(planned.part):
            return result
        counted = [work for other in found.values() if other.part == result.part for work in other.work]
        if result.speed is not None:
            name = gpu.name if gpu else ""
            return replace(result, predictions=prediction.beside_measured(name, band, result.speed, counted))
        if result.status == "skipped_environment":
            return replace(result, predictions=prediction.on_paper(band, counted))
        return result

    def _unfit(self, part: Part) -> bool:
        return self._answers.blocked(part) is not None or self._answers.unfit(part) != ""

    def _timed(self, planned: PlannedCheck) -> CheckResult | Timed:
        """The verdict on speed, to be confirmed; or why there is none."""
        if blocked := self._answers.blocked(planned.part):
            return result_of(planned, blocked)
        if unfit := self._answers.unfit(planned.part):
            return result_of(planned, None, status="skipped_dependency", reason=f"timed once {unfit} passes")
        started = monotonic()
        band, anchor, lock = planned.check.rule, self._stadium.anchor, self._stadium.lock
        assert isinstance(band, SpeedBand)
        assert anchor is not None
        assert lock is not None
        try:
            with lock.alone():
                suite = Suite(
                    part=planned.part,
                    band=band,
                    session=self._session,
                    anchor=anchor,
                    gauged=anchor.gauge(),
                    uuid=self._stadium.uuid,
                    path=self._job.path,
                    slow_baselines=self._job.all_baselines,
                )
                return Timed(suite, suite.judge(), monotonic() - started)
        except Exception as fault:
            return self._fault(planned, fault, monotonic() - started)

    def _confirmed(self, planned: PlannedCheck, timed: Timed) -> CheckResult:
        started = monotonic()
        assert self._stadium.lock is not None
        verdict = timed.verdict
        try:
            if not (verdict.failure or verdict.undecided):
                with self._stadium.lock.alone():
                    verdict = timed.suite.confirm(verdict)
        except Exception as fault:
            return replace(self._fault(planned, fault, timed.duration_s), speed=timed.verdict.speed)
        duration_s = timed.duration_s + monotonic() - started
        status: Status = "inconclusive" if verdict.undecided else "pass"
        result = result_of(planned, verdict.failure, duration_s=duration_s, status=status, reason=verdict.undecided)
        earned = round(verdict.share * planned.check.points, 2) if result.status == "pass" else 0.0
        return replace(result, points=earned, speed=verdict.speed)

    def _fault(self, planned: PlannedCheck, fault: Exception, duration_s: float) -> CheckResult:
        # What the grader failed at may have left the process in the middle of something.
        with suppress(Exception):
            self._session.restart()
        return result_of(planned, grader_failed(fault), duration_s=duration_s)
