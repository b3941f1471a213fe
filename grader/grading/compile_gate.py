"""Judge checks that need a compiler, and hold back passes of the interpreter until kernels compile."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from time import monotonic

from grader.compile import outcome_cache
from grader.compile.outcome_cache import CompileOutcome
from grader.diagnosis.diagnosis import Diagnosis
from grader.exercise.plan import Plan, PlannedCheck
from grader.grading.fitness import unfit_here
from grader.grading.part_compiler import PartCompiler
from grader.grading.results import failed_result, grader_failed, result_of, was_run
from grader.judge.failure import Failure
from grader.judge.kernel_groups import JudgedCall
from grader.judge.rules import decide_compiled
from grader.judge.rules.compiles import COMPILED_ONLY, compiles_nowhere, late_words
from grader.judge.truth import Truth
from grader.record.checks import CheckResult

# The most judged calls of a part whose kernels the compiler checks at a time: once after the largest check, once at the
# end. There is one call for each group of kernels.
_MOST_CHECKED = 16
# Seconds that a check waits for the compiler.
_PATIENCE_S = 120.0
# No judged call of a part begins after so many seconds; each may then take as long as the compiler's own limit.
_MOST_CHECKING_S = 120.0


class CompileGate:
    """The checks of one grading that need a compiler. Use as a context manager.

    on_gpu: kernels run compiled anyway. for_record: kernels are compiled for the record. cache_file: the file of judged
    calls whose kernels were accepted in an earlier grading of the same text.
    """

    def __init__(
        self,
        plan: Plan,
        part_compiler: PartCompiler,
        diagnosis: Diagnosis,
        truth: Truth,
        *,
        on_gpu: bool,
        for_record: bool,
        cache_file: Path | None = None,
    ) -> None:
        self._planned = {planned.id: planned for planned in plan.checks}
        self._part_compiler = part_compiler
        self._diagnosis = diagnosis
        self._truth = truth
        self._on_gpu = on_gpu
        self._for_record = for_record
        self._held: list[CheckResult] = []
        self._cache_file = cache_file
        self._accepted = outcome_cache.accepted(cache_file) if cache_file else frozenset[str]()
        self._settled: set[str] = set()
        self._checking_s: dict[str, float] = defaultdict(float)
        self._pool = ThreadPoolExecutor(1)
        # By part, and by the name of a judged call.
        self._checks: dict[str, dict[str, Future[list[CompileOutcome]]]] = defaultdict(dict)

    def __enter__(self) -> CompileGate:
        if self._is_needed():
            self._part_compiler.send()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _is_needed(self) -> bool:
        """Return whether some check that this machine can judge needs a compiler."""
        return any(
            planned.check.rule.targets and not unfit_here(planned, on_gpu=self._on_gpu)
            for planned in self._planned.values()
        )

    def judge(self, planned: PlannedCheck) -> CheckResult:
        """Judge a check of what the part's kernels compile to."""
        started = monotonic()
        try:
            outcomes = [
                outcome
                for target in planned.check.rule.targets
                for outcome in self._part_compiler.judged(planned.part.name, target, _PATIENCE_S)
            ]
            ruling = decide_compiled(outcomes, planned, self._truth)
            if not (ruling.failure or ruling.undecided or self._on_gpu):
                ruling = replace(ruling, notes=(*ruling.notes, COMPILED_ONLY))
            if ruling.failure:
                self._diagnosis.hear(planned, ruling.failure)
            return result_of(planned, ruling, duration_s=monotonic() - started)
        except Exception as fault:
            return failed_result(planned, grader_failed(fault), monotonic() - started)

    def hold(self, result: CheckResult, launching: Sequence[JudgedCall]) -> bool:
        """Return whether a result must wait for the compiler, and store it until `release`.

        The interpreter also runs kernels that compile for no GPU. launching: the judged calls whose kernels must
        compile.
        """
        if self._for_record and was_run(result):
            # Begin at the first sign of something to compile.
            self._part_compiler.send()
        technique = self._planned[result.id].check.rule.demands_kernels and result.status == "pass"
        if held := technique and self._for_record and not self._on_gpu:
            self._held.append(result)
        if held or self._has_most_cases(result):
            # Most of a part's calls are made by then: the compiler works beside the rest.
            self._begin(result.part, launching)
        return held

    def _has_most_cases(self, result: CheckResult) -> bool:
        """Return whether a check that passed has the most cases of a part whose kernels the compiler must accept."""
        if not self._for_record or self._on_gpu or result.status != "pass":
            return False
        of_part = [one for one in self._planned.values() if one.part.name == result.part]
        most = max(of_part, key=lambda one: len(one.cases))
        return most.id == result.id and any(one.check.rule.demands_kernels for one in of_part)

    def _begin(self, part: str, launching: Sequence[JudgedCall]) -> None:
        """Have the compiler begin with the judged calls that are new to it."""
        chosen = sorted(launching, key=lambda one: (one.until != "fit", one.recorded.digest))[:_MOST_CHECKED]
        for one in chosen:
            if _name_of(one) not in self._checks[part]:
                self._checks[part][_name_of(one)] = self._pool.submit(self._check, one)

    def _check(self, judged: JudgedCall) -> list[CompileOutcome]:
        """Return the verdicts on a judged call's kernels.

        There are none if an earlier grading has accepted them, or if others of the part are refused or late already.
        """
        name = _name_of(judged)
        part = judged.recorded.call.recipe.part
        if name in self._accepted or part in self._settled:
            return []
        if self._checking_s[part] > _MOST_CHECKING_S:
            why = f"the compiler takes more than {_MOST_CHECKING_S:g} s for the kernels of this part's calls"
            return [CompileOutcome(part, one.name, state="late", why=why) for one in self._part_compiler.targets]
        began_s = monotonic()
        outcomes = self._part_compiler.check(judged)
        self._checking_s[part] += monotonic() - began_s
        if compiles_nowhere(outcomes) or late_words(outcomes):
            self._settled.add(part)
        if self._cache_file and outcomes[-1].state == "compiled" and not outcomes[-1].kernels:
            self._accepted |= {name}
            outcome_cache.accept(self._cache_file, self._accepted)
        return outcomes

    def wait(self) -> None:
        """Wait for the compiler's verdicts on judged calls."""
        self._pool.shutdown()

    def release(self, judged_before: Mapping[str, CheckResult]) -> Iterator[CheckResult]:
        """Yield the results that waited; those whose kernels compile for no GPU fail, and slow ones stay open.

        judged_before: results by the checks' names. If a GPU takes other branches, it does not run the judged code: the
        part's results among these are yielded once more, as failures.
        """
        for part, held in groupby(self._held, key=lambda one: one.part):
            refused, late = self._verdict(part)
            for result in held:
                if refused:
                    yield failed_result(self._planned[result.id], refused, result.duration_s)
                elif late:
                    yield replace(result, status="inconclusive", points=0.0, reason=late)
                else:
                    yield result
            if refused and refused.status == "policy":
                for one in judged_before.values():
                    if one.part == part and one.status == "pass":
                        yield failed_result(self._planned[one.id], refused, one.duration_s)

    def _verdict(self, part: str) -> tuple[Failure | None, str]:
        """Return the failure of a part's held results, or None, and why the compiler's answer is late, or ''."""
        try:
            judged = [one.result() for one in self._checks[part].values()]
        except Exception as fault:
            return grader_failed(fault), ""
        nowhere = filter(None, map(compiles_nowhere, [self._part_compiler.outcomes(part), *judged]))
        return next(nowhere, None), next(filter(None, map(late_words, judged)), "")


def _name_of(judged: JudgedCall) -> str:
    """Return a unique name for a judged call and the compiler's last stage."""
    return hashlib.sha256(judged.until.encode() + judged.recorded.digest).hexdigest()
