"""Judge answers: the checks of one part after another, in a process of the submission for each part.

On a GPU, where a process is expensive, the parts share one. A process that dies is replaced, and the remaining checks
go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from time import monotonic

from grader.exercise.cases import Case
from grader.exercise.model import Part, check_id
from grader.exercise.plan import PlannedCase, PlannedCheck
from grader.grading.fitness import crowded_out, fitting_now, takes_much_memory, unfit_here
from grader.grading.job import Job
from grader.grading.results import failed_result, grader_failed, open_result, result_of, unjudged
from grader.grading.shrinking import Least, Shrinking
from grader.grading.workplace import Workplace
from grader.judge.bench import Bench
from grader.judge.coverage import coverage_of_wrong
from grader.judge.failure import Failure
from grader.judge.kernel_groups import JudgedCall
from grader.judge.oracle_prefetch import OraclePrefetch
from grader.judge.rules import decide
from grader.judge.ruling import Ruling
from grader.judge.unanswered import missing_function, why_not_loaded
from grader.phrases import all_of
from grader.protocol.answers import Loaded
from grader.record.checks import CheckResult
from grader.record.launches import Coverage
from grader.record.statuses import UNJUDGED, Status
from grader.sandbox.outcome import Finished
from grader.text import sha256_of
from grader.timeline import spent

# After this many timeouts the other checks of a part do not run.
_MOST_TIMEOUTS = 2
# Failures that a check on bytes reports itself; other checks report the rest.
_COUNTED = frozenset({"traffic", "stores", "memory", "out_of_bounds", "race", "undefined"})


class Answers:
    """The checks of one grading that judge answers. The GPU, if there is one, is held shared."""

    def __init__(self, job: Job, workplace: Workplace) -> None:
        self._job = job
        self._workplace = workplace
        self._session = workplace.pair.session
        self._diagnosis = workplace.diagnosis
        self._shrinking = Shrinking(job)
        self._load_failure: Failure | None = None
        self._blocked: dict[str, Failure] = {}
        self._statuses: dict[str, Status] = {}
        # By part: the judged calls whose kernels the compiler reads, one for each group of kernels.
        self._launching: dict[str, tuple[JudgedCall, ...]] = {}
        # By part: the coverage of the first wrong call, else of a right call.
        self._coverage: dict[str, Coverage] = {}

    def judge_part(self, part: Part, planned: Sequence[PlannedCheck]) -> Iterator[CheckResult]:
        """Judge the checks of one part, one after another, in a process of its own.

        Results that wait for the compiler are not among them: the gate releases these later.
        """
        for result in self._judge_checks(part, planned):
            if not self._workplace.gate.hold(result, self._launching.get(part.name, ())):
                yield result

    def _judge_checks(self, part: Part, planned: Sequence[PlannedCheck]) -> Iterator[CheckResult]:
        blocked = self._begin(part)
        timeouts: list[str] = []
        salt = sha256_of(self._job.source)
        most_s = self._job.entry.exercise.limits.part_s
        # Checks on technique come last: they sum up all other checks of the part.
        ordered = sorted(planned, key=lambda one: one.check.rule.order)
        with OraclePrefetch(self._workplace.truth) as prefetch:
            bench = Bench(
                pair=self._workplace.pair,
                truth=self._workplace.truth,
                part=part,
                path=self._job.path,
                device=self._device(),
                salt=salt,
                prefetch=prefetch,
                most_s=most_s,
                interpreter=self._workplace.interpreter,
                refusal=self._workplace.refusal,
                first_failure=self._job.first_failure,
            )
            for check in ordered:
                if reason := unfit_here(check, on_gpu=self._session.runs_on_gpu):
                    yield open_result(check, "skipped_environment", reason)
                elif check.check.rule.targets:
                    yield self._workplace.gate.judge(check)
                elif check.cases == ():
                    yield unjudged(check, on_gpu=self._session.runs_on_gpu)
                elif blocked is not None:
                    yield failed_result(check, blocked)
                elif len(timeouts) >= _MOST_TIMEOUTS:
                    reason = f"not run because {all_of(timeouts)} ran out of time"
                    yield open_result(check, "skipped_dependency", reason)
                else:
                    with self._turn(check):
                        result = self._judge(bench, fitting_now(check, on_gpu=self._session.runs_on_gpu))
                        # Another grading may time next, and needs quiet cores.
                        prefetch.turn_to(())
                    self._launching[part.name] = bench.findings.kernel_groups.calls()
                    self._statuses[check.id] = result.status
                    if result.status == "timeout":
                        timeouts.append(check.id)
                    # Another check passed, so the part is written: a case left out costs only the checks that run it.
                    if result.status == "not_implemented" and result.cause and not self._has_passed(part):
                        blocked = Failure("not_implemented", result.cause)
                    yield result
            if self._job.diagnosed:
                with spent("search for a repair"):
                    self._diagnosis.search_repair(bench.interpreted(), planned)
        if blocked is not None:
            self._blocked[part.name] = blocked
        if coverage := bench.findings.coverage:
            self._coverage.setdefault(part.name, coverage)

    def coverage(self, part: Part) -> Coverage | None:
        """Return what the programs of one of the part's calls touch, None where nothing is known."""
        return self._coverage.get(part.name)

    def blocking_failure(self, part: Part) -> Failure | None:
        """Return why no check of the part could be judged, or None."""
        return self._blocked.get(part.name)

    def _has_passed(self, part: Part) -> bool:
        return any(self._statuses.get(check_id(part, check)) == "pass" for check in part.checks)

    def closed_gate(self, part: Part) -> tuple[str, Status] | None:
        """Return the first check that gates speed and did not pass, with its status; None if all passed.

        A check that failed goes before one that could not be judged: then the speed's points are lost, too.
        """
        gates = [check_id(part, check) for check in part.checks if check.rule.gates_speed]
        closed = [(name, self._statuses[name]) for name in gates if self._statuses.get(name, "pass") != "pass"]
        return min(closed, key=lambda gate: gate[1] in UNJUDGED, default=None)

    def _device(self) -> str:
        return self._session.ready.device if self._session.ready else "cpu"

    def _begin(self, part: Part) -> Failure | None:
        """Begin a part. Return why no check of it can be judged, or None."""
        try:
            # Ending a process that holds a GPU takes seconds; there the parts share one.
            if not self._session.runs_on_gpu:
                self._session.restart()
            return self._load(part)
        except Exception as fault:
            return self._failure_of_fault(fault)

    def _failure_of_fault(self, fault: Exception) -> Failure:
        with suppress(Exception):
            self._session.restart()
        return grader_failed(fault)

    def _load(self, part: Part) -> Failure | None:
        if self._load_failure is None:
            loaded = self._session.load()
            if isinstance(loaded, Loaded):
                return None if part.name in loaded.functions else missing_function(part.name, loaded.others)
            assert not isinstance(loaded, Finished)
            self._load_failure = why_not_loaded(loaded, self._job.path)
        return self._load_failure

    @contextmanager
    def _turn(self, planned: PlannedCheck) -> Iterator[None]:
        """Hold the turn on the GPU that a check needs: alone for much memory, else together with other gradings."""
        with ExitStack() as held:
            if (lock := self._workplace.setup.lock) is not None:
                with spent("wait for the GPU"):
                    held.enter_context(lock.exclusive() if takes_much_memory(planned) else lock.shared())
            yield

    def _judge(self, bench: Bench, planned: PlannedCheck) -> CheckResult:
        counted = planned.check.rule.counts_bytes and self._workplace.interpreter is not None
        return self._judge_counted(bench, planned) if counted else self._judge_check(bench, planned)

    def _judge_check(self, bench: Bench, planned: PlannedCheck) -> CheckResult:
        started, before_s = monotonic(), bench.pair.worked_s
        try:
            ruling = decide(bench, planned)
            failure, failing = ruling.failure, ruling.failing
            if crowded := crowded_out(failure, bench.pair, on_gpu=bench.device != "cpu"):
                return open_result(planned, "inconclusive", crowded, monotonic() - started)
            worked_s = bench.pair.worked_s - before_s
            least = self._shrinking.least(bench, planned, failure, failing) if failure and failing else None
            if failure and self._job.diagnosed:
                with spent("look for causes"):
                    failure = self._diagnosis.look_closer(bench, planned, _quick(ruling, least), worked_s)
            self._note_wrong_call(planned, failure)
            if failure and failing:
                failure = self._seen_in_smallest(bench, planned, failure, failing, least)
            counterexample = least.shown if least else None
            return result_of(planned, replace(ruling, failure=failure), counterexample, monotonic() - started)
        except Exception as fault:
            return failed_result(planned, self._failure_of_fault(fault), monotonic() - started)

    def _seen_in_smallest(
        self, bench: Bench, planned: PlannedCheck, failure: Failure, failing: PlannedCase, least: Least | None
    ) -> Failure:
        """Return the failure to show; on a GPU, with the interpreter's findings in the smallest failing case."""
        if not self._job.diagnosed:
            return failure
        if bench.interpreter is None:
            if least and least.failure:
                self._diagnosis.look_at_smallest(bench, planned, least.failure)
            return failure
        one = replace(failing, case=Case(least.shown.case)) if least else failing
        with spent("look at the smallest case in the interpreter"):
            return self._diagnosis.look_in_interpreter(bench, planned, failure, one)

    def _note_wrong_call(self, planned: PlannedCheck, failure: Failure | None) -> None:
        """Keep what the programs of the part's first wrong call touch."""
        part = planned.part
        if failure is None or failure.wrong_call is None or failure.wrong_call.recipe.part != part.name:
            return
        wrong = failure.cause.mismatch.count if failure.cause.mismatch else 0
        if covering := coverage_of_wrong(failure.wrong_call, planned.id, wrong, in_place=bool(part.mutates)):
            self._coverage.setdefault(part.name, covering)

    def _judge_counted(self, bench: Bench, planned: PlannedCheck) -> CheckResult:
        """Judge a check that counts bytes, in a grading on a GPU.

        If the interpreter cannot run the call, the check is skipped.
        """
        result = self._judge_check(bench.interpreted(), planned)
        if result.status in ("pass", "grader_error") or (result.cause and result.cause.kind in _COUNTED):
            return result
        said = result.cause.rationale if result.cause else result.reason or result.status
        reason = f"bytes are counted in the interpreter, where this call did not succeed: {said}"
        return replace(open_result(planned, "skipped_environment", reason), notes=result.notes)


def _quick(ruling: Ruling, least: Least | None) -> Ruling:
    """Return the ruling for the diagnosis: the smallest failing call in place of a large one."""
    first, smaller = ruling.failure, least.failure if least else None
    if (
        first is None
        or first.wrong_call is None
        or not first.wrong_call.is_large
        or smaller is None
        or smaller.wrong_call is None
    ):
        return ruling
    return replace(ruling, failure=smaller, alike=())
