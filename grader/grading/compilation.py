"""Judge checks that need a compiler, and hold back passes of the interpreter until kernels compile."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

from grader.diagnosis.explain import Diagnosis
from grader.exercise.plan import Plan, PlannedCheck
from grader.grading.fitness import unfit_here
from grader.grading.results import grader_failed, result_of
from grader.judge.compiler import Compiling
from grader.judge.rules import decide_compiled
from grader.judge.rules.compiles import compiles_nowhere
from grader.record import CheckResult, Status

# Seconds that a check waits for the compiler.
_PATIENCE_S = 120.0


class Compilation:
    """The checks of one grading that need a compiler.

    on_gpu: kernels run compiled anyway. for_record: kernels are compiled for the record.
    """

    def __init__(
        self, plan: Plan, compiling: Compiling, diagnosis: Diagnosis, *, on_gpu: bool, for_record: bool
    ) -> None:
        self._planned = {planned.id: planned for planned in plan.checks}
        self._compiling = compiling
        self._diagnosis = diagnosis
        self._on_gpu = on_gpu
        self._for_record = for_record
        self._held: list[CheckResult] = []

    @property
    def is_needed(self) -> bool:
        """Some check that this machine can judge needs a compiler."""
        return any(
            planned.check.rule.targets and not unfit_here(planned, on_gpu=self._on_gpu)
            for planned in self._planned.values()
        )

    def judge(self, planned: PlannedCheck) -> CheckResult:
        """Judge a check of what the part's kernels compile to."""
        started = monotonic()
        try:
            outcomes = [
                self._compiling.outcome(planned.part.name, target, _PATIENCE_S) for target in planned.check.rule.targets
            ]
            ruling = decide_compiled(outcomes, planned)
            if ruling.failure:
                self._diagnosis.hear(planned, ruling.failure)
            status: Status = "inconclusive" if ruling.undecided else "pass"
            seconds = monotonic() - started
            return result_of(planned, ruling.failure, None, ruling, seconds, status=status, reason=ruling.undecided)
        except Exception as fault:
            return result_of(planned, grader_failed(fault), duration_s=monotonic() - started)

    def hold(self, result: CheckResult) -> bool:
        """Return whether a result must wait for the compiler, and store it until `release`.

        The interpreter also runs kernels that compile for no GPU.
        """
        technique = self._planned[result.id].check.rule.demands_kernels and result.status == "pass"
        if held := technique and self._for_record and not self._on_gpu:
            self._held.append(result)
        return held

    def release(self) -> Iterator[CheckResult]:
        """Yield the results that waited; those whose kernels compile for no GPU fail."""
        for result in self._held:
            nowhere = compiles_nowhere(self._compiling.outcomes(result.part))
            refused = nowhere and result_of(self._planned[result.id], nowhere, duration_s=result.duration_s)
            yield refused or result
