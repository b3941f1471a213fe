"""Judge the speed of parts with right answers, and add predictions.

record at every size -> compile -> the submission's process ends -> time
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from time import monotonic

from grader import machine
from grader.exercise.cases import Case
from grader.exercise.model import Part
from grader.exercise.plan import PlannedCheck
from grader.grading.answers import Answers
from grader.grading.fitness import crowded_out, crowded_out_baseline
from grader.grading.job import Job
from grader.grading.results import failed_result, grader_failed, open_result, result_of
from grader.judge.ruling import Ruling
from grader.protocol.baseline_messages import Gauged
from grader.protocol.requests import Call, Recipe
from grader.record.checks import CheckResult, PartInfo
from grader.record.statuses import UNJUDGED, Status
from grader.sandbox.pair import Pair
from grader.sandbox.session import Session
from grader.speed.prediction import CountedPart
from grader.speed.setup import TimingSetup
from grader.speed.suite import Suite, Traced, fits
from grader.timeline import spent

# Seed of the inputs for recording; timed calls get others.
_DECOY_SEED = 1

# A check on speed, and the recorded calls of its part at every size.
_Waiting = tuple[PlannedCheck, dict[Case, Traced]]


class SpeedJudge:
    """The checks on speed of one grading."""

    def __init__(self, job: Job, pair: Pair, setup: TimingSetup, answers: Answers) -> None:
        self._job = job
        self._pair = pair
        self._setup = setup
        self._answers = answers

    def is_timed(self, planned: PlannedCheck) -> bool:
        """Return whether a check is on speed and can be timed in this run."""
        is_timed = planned.check.rule.is_timed
        return is_timed and self._setup.baseline_process is not None and not planned.unfit

    @property
    def is_due(self) -> bool:
        """Return whether something will be timed, judging by the answers so far."""
        timed = (planned for planned in self._job.plan.checks if self.is_timed(planned))
        return any(not self._blocked_result(planned) for planned in timed)

    def results(self) -> Iterator[CheckResult]:
        """Judge the speed checks of all parts, whose answers have been judged."""
        waiting: list[_Waiting] = []
        for planned in self._job.plan.checks:
            if not self.is_timed(planned):
                continue
            if result := self._blocked_result(planned):
                yield result
                continue
            try:
                waiting.append((planned, self._record_calls(planned)))
            except Exception as fault:
                yield self._fault_result(planned, fault, 0.0)
        if waiting:
            yield from self._time_all(waiting)

    def _time_all(self, waiting: list[_Waiting]) -> Iterator[CheckResult]:
        with spent("compile what is timed"), suppress(Exception):
            waiting = self._compile(waiting)
        with spent("end the submission's process"):
            replayer = self._pair.end_all_but_one()
        for planned, traced in waiting:
            yield self._judge_speed(planned, traced, replayer)

    def _compile(self, waiting: list[_Waiting]) -> list[_Waiting]:
        """Compile the timed calls. Return them, with late ones marked."""
        sizes = [
            (place, case, traced) for place, (_, of_part) in enumerate(waiting) for case, traced in of_part.items()
        ]
        calls = [call for _, _, traced in sizes if isinstance(traced, tuple) for call in traced if call.is_replayable]
        compiled = iter(self._pair.precompile(calls))
        found: list[_Waiting] = [(planned, {}) for planned, _ in waiting]
        for place, case, traced in sizes:
            recorded_calls = traced if isinstance(traced, tuple) else ()
            again = tuple(next(compiled) if call.is_replayable else call for call in recorded_calls)
            found[place][1][case] = again or traced
        return found

    def predicted(
        self,
        planned: PlannedCheck,
        found: Mapping[str, CheckResult],
        gpu: machine.CudaDevice | None,
        compiled: PartInfo,
    ) -> CheckResult:
        """Return the result, with roofline predictions for a check on speed whose part has right answers.

        compiled: what is known of the part's kernels without running them.
        """
        result, band = found[planned.id], planned.check.rule.band
        if band is None or self._answers.closed_gate(planned.part):
            return result
        counted = [work for other in found.values() if other.part == result.part for work in other.work]
        part = CountedPart(band, counted, compiled)
        if result.speed is not None:
            name, capability = (gpu.name, gpu.capability) if gpu else ("", "")
            return part.with_predictions(result, name, capability)
        if result.status == "skipped_environment":
            return replace(result, predictions=part.on_paper())
        return result

    def _blocked_result(self, planned: PlannedCheck) -> CheckResult | None:
        """Return the result of a check whose part cannot be timed yet."""
        if blocked := self._answers.blocking_failure(planned.part):
            return failed_result(planned, blocked)
        if gate := self._answers.closed_gate(planned.part):
            name, status = gate
            passed_on: Status = status if status in UNJUDGED else "skipped_dependency"
            return open_result(planned, passed_on, f"timed once {name} passes")
        return None

    def _record_calls(self, planned: PlannedCheck) -> dict[Case, Traced]:
        """Record the part's calls at every size that fits."""
        band, part = planned.check.rule.band, planned.part
        assert band is not None
        gauged = self._gauge()
        with spent("record what is timed"):
            return {
                case: self._pair.record_timed(_decoy_call(part, case))
                for case in band.suite.named_cases
                if fits(band, case, gauged)
            }

    def _gauge(self) -> Gauged:
        assert self._setup.baseline_process is not None
        return self._setup.baseline_process.gauge()

    def _judge_speed(self, planned: PlannedCheck, traced: dict[Case, Traced], replayer: Session) -> CheckResult:
        """Judge one check on speed."""
        started = monotonic()
        band, baselines, lock = planned.check.rule.band, self._setup.baseline_process, self._setup.lock
        assert band is not None
        assert baselines is not None
        assert lock is not None
        try:
            with ExitStack() as alone:
                with spent("wait for the GPU"):
                    alone.enter_context(lock.exclusive())
                verdict = Suite(
                    part=planned.part,
                    band=band,
                    traced=traced,
                    replayer=replayer,
                    baseline_process=baselines,
                    gauged=self._gauge(),
                    uuid=self._setup.uuid,
                    path=self._job.path,
                    slow_baselines=self._job.slow_baselines,
                ).judge()
        except Exception as fault:
            return self._fault_result(planned, fault, monotonic() - started)
        crowded = crowded_out(verdict.failure, self._pair, on_gpu=True)
        failure, undecided = None if crowded else verdict.failure, crowded or verdict.undecided
        ruling = Ruling(failure, undecided=undecided, share=verdict.share)
        return replace(result_of(planned, ruling, duration_s=monotonic() - started), speed=verdict.speed)

    def _fault_result(self, planned: PlannedCheck, fault: Exception, duration_s: float) -> CheckResult:
        # The grader's error may have left the process in the middle of something.
        with suppress(Exception):
            self._pair.end_all_but_one().restart()
        if crowded := crowded_out_baseline(fault):
            return open_result(planned, "inconclusive", crowded, duration_s)
        return failed_result(planned, grader_failed(fault), duration_s)


def _decoy_call(part: Part, case: Case) -> Call:
    return part.call(Recipe(part.name, dict(case), _DECOY_SEED))
