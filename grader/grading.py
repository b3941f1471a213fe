"""Grades one submission against one exercise: plan in, record out. Does no input or output of its own.

Each part runs in a fresh process; on a GPU, where a process is dear, the parts share one. A check that fails is shrunk
to its smallest failing case; a process that dies is replaced and the remaining checks go on. Speed comes last.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import groupby
from time import monotonic

import torch

from grader import __version__, machine
from grader.catalogue import Entry
from grader.compiled.kept import place_for
from grader.compiled.runner import Compiling
from grader.judge.bench import Bench
from grader.judge.causes import Failure, missing_function, why_not_finished
from grader.judge.clues import Clue
from grader.judge.compiles import compiles, compiles_nowhere
from grader.judge.contrast import Tried
from grader.judge.kinds import known_kinds
from grader.judge.rules import decide, failure_of, shrinkable
from grader.judge.ruling import Ruling
from grader.judge.suspects import again, clues_in, explained, gathered, space_of, suspects_of
from grader.judge.truth import Truth
from grader.model.cases import Case
from grader.model.exercise import Agrees, Compiles, Fresh, Part, SpeedBand, UsesKernels, WorkModel, check_id
from grader.plan import Plan, PlannedCase, PlannedCheck, ReplayToken
from grader.protocol.messages import Loaded, Start
from grader.record import (
    SCHEMA,
    UNJUDGED,
    Cause,
    CheckResult,
    Counterexample,
    ExerciseInfo,
    PartInfo,
    PrintedOutput,
    Record,
    Status,
    SubmissionInfo,
    Tool,
    clean,
    verdict_of,
)
from grader.sandbox.kernels import shelf_for
from grader.sandbox.outcome import Finished
from grader.sandbox.scratch import Scratch
from grader.sandbox.server import Server
from grader.sandbox.session import Session
from grader.shrink import smallest
from grader.speed import prediction
from grader.speed.anchor import Anchor
from grader.speed.lock import GpuLock
from grader.speed.scout import Scout
from grader.speed.stadium import Stadium, Timed, opened, scouted
from grader.speed.suite import Suite
from grader.tripwire import sightings

_SHRINK_CHECK_S = 2.0
_SHRINK_TOTAL_S = 5.0
# On a GPU, where a grading takes minutes, compiled kernels are waited for at least so long.
_GPU_PATIENCE_S = 20.0
# A check that asks what kernels compile to waits for it so long.
_COMPILE_S = 120.0
# A part that ran out of time this often is not waited for again.
_MOST_TIMEOUTS = 2
# Nothing that a learner did wrong, or did at all.
_NO_CAUSE = (*UNJUDGED, "not_implemented", "invalid_submission", "skipped_dependency")
# A call that takes longer is not made once more to learn about its failure.
_PROBE_S = 0.5
# What a work check finds out; anything else that goes wrong there is the business of other checks.
_COUNTED = frozenset({"traffic", "memory", "out_of_bounds", "race"})


@dataclass(frozen=True)
class Job:
    """One grading: what is graded, against what, by which plan. `path` is shown; `source` is what runs.

    timed: whether speed is judged, where there is a GPU; all_baselines: also beside baselines that are slow to compile;
    compiled: whether kernels are compiled for the record; patience_s: how long, when all else is judged, the record is
    waited with for what they are compiled to (moments, for somebody who edits and grades again).
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


def grade(
    job: Job,
    server: Server,
    on_result: Callable[[CheckResult], None] = lambda result: None,
    anchor: Anchor | None = None,
    truth: Truth | None = None,
) -> Record:
    """Grade the job's submission in children of `server`; `on_result` hears of every check as it is decided.

    All answers are judged first, then speed. `anchor` is one that was started early; without it, one is started where
    something is timed. `truth` is one that other gradings of the exercise use as well.
    """
    started = monotonic()
    # Tensors are small here, and threads of torch's own would take the cores from the submission.
    torch.set_num_threads(1)
    exercise = job.entry.exercise
    truth = truth or Truth(job.entry.source("inputs.py"), job.entry.source("oracle.py"), measured=job.entry.measured)
    start = job.entry.start(job.source)
    gpu = machine.find_gpu() if server.mode == "gpu" else None
    versions = machine.version("triton"), machine.version("torch")
    shelf = shelf_for(job.source, versions) if gpu else None
    parts = [(part, list(planned)) for part, planned in groupby(job.plan.checks, key=lambda check: check.part)]
    results: list[CheckResult] = []
    with (
        Scratch(shelf) as scratch,
        Session(server, start, exercise.limits, scratch) as session,
        _counting(job, server, start, session) as counting,
        opened(job.entry, gpu.uuid if gpu else "", anchor, timed=job.timed and _has_speed(job.plan)) as stadium,
        Compiling(
            start, exercise.limits, [part for part, _ in parts], shelf=place_for(start, (*versions, __version__))
        ) as compiling,
    ):
        grading = _Grading(job, session, truth, stadium, counting, compiling)
        if any(grading.is_compiled(planned) for planned in job.plan.checks):
            compiling.send(lambda: server.beside("compile"))

        def tell(result: CheckResult) -> None:
            results.append(result)
            on_result(result)

        def hear(found: Iterator[CheckResult]) -> None:
            for result in found:
                # From the first sign that there is something to compile.
                if job.compiled and _ran(result):
                    compiling.send(lambda: server.beside("compile"))
                if not grading.holds(result):
                    tell(result)

        def scout(lock: GpuLock) -> Scout:
            return Scout(server, start, exercise.limits, scratch, lock)

        # What an earlier grading of this very file compiled need not be compiled ahead.
        ahead = [] if scratch.has_kernels else [part for part, _ in parts]
        with scouted(stadium, ahead, scout) as sent:
            for part, planned in parts:
                hear(grading.part(part, planned))
            if sent and grading.has_something_to_time(parts):
                sent.recall()
            # Nothing else may be busy while something is timed.
            compiling.recall(max(job.patience_s, _GPU_PATIENCE_S if gpu else 0.0))
        for result in grading.released():
            tell(result)
        hear(grading.speed(parts))
        isolation = session.ready.isolation if session.ready else ()
    found = {result.id: result for result in results}
    checks = tuple(grading.explained(planned, grading.predicted(planned, found, gpu)) for planned in job.plan.checks)
    return Record(
        schema=SCHEMA,
        tool=Tool("grade", __version__),
        exercise=ExerciseInfo(job.entry.id, job.entry.name, exercise.title, exercise.version, job.entry.sha256()),
        submission=SubmissionInfo(
            clean(job.path), hashlib.sha256(job.source.encode()).hexdigest(), clean(job.student, 200)
        ),
        env=machine.environment(server.mode, isolation, gpu),
        seed=f"{job.plan.seed:#x}",
        command=clean(job.command),
        verdict=verdict_of(checks),
        score=sum(check.points for check in checks),
        judged_score=sum(check.max_points for check in checks if check.status not in UNJUDGED),
        max_score=sum(check.max_points for check in checks),
        parts=tuple(_part_info(part, checks, compiling) for part, _ in parts),
        checks=checks,
        printed=PrintedOutput(
            clean(session.printed.text, 12000), session.printed.total_bytes, session.printed.cut_bytes
        ),
        graded_at=job.graded_at,
        duration_s=round(monotonic() - started, 3),
        sightings=sightings(job.source),
    )


def _has_speed(plan: Plan) -> bool:
    return any(isinstance(planned.check.rule, SpeedBand) for planned in plan.checks)


def _ran(result: CheckResult) -> bool:
    """Whether a check shows that the part is there and was called."""
    return result.status not in (*UNJUDGED, "not_implemented", "invalid_submission", "skipped_dependency")


def _part_info(part: Part, checks: Sequence[CheckResult], compiling: Compiling) -> PartInfo:
    if not compiling.sent or not any(_ran(check) for check in checks if check.part == part.name):
        return PartInfo(part.name, part.title)
    return PartInfo(part.name, part.title, *compiling.found(part.name))


@contextmanager
def _counting(job: Job, server: Server, start: Start, session: Session) -> Iterator[Session]:
    """Where bytes are counted: in the interpreter, which on a GPU is another process of the submission."""
    counted = any(isinstance(planned.check.rule, WorkModel) for planned in job.plan.checks)
    if server.mode == "interpret" or not counted:
        yield session
        return
    with Session(server.beside("interpret"), start, job.entry.exercise.limits) as counting:
        yield counting


class _Grading:
    """The state of one grading: whether the file loads, and how much time shrinking has left."""

    def __init__(
        self, job: Job, session: Session, truth: Truth, stadium: Stadium, counting: Session, compiling: Compiling
    ) -> None:
        self._job = job
        self._compiling = compiling
        self._counting = counting
        self._stadium = stadium
        self._session = session
        self._truth = truth
        self._load_failure: Failure | None = None
        self._statuses: dict[str, Status] = {}
        self._blocked_parts: dict[str, Failure] = {}
        # Of kernels that were interpreted: decided when it is known whether they compile.
        self._held: list[tuple[PlannedCheck, CheckResult]] = []
        self._shrink_left_s = _SHRINK_TOTAL_S
        # By check, what its failures point to; by part, which cases failed.
        self._clues: dict[str, list[Clue]] = {}
        self._words: dict[str, tuple[str, str]] = {}
        self._tried: dict[str, list[Tried]] = {}

    def part(self, part: Part, planned: list[PlannedCheck]) -> Iterator[CheckResult]:
        """Judge the checks of one part, one after another, in a process of its own."""
        blocked = self._blocked(part)
        timeouts: list[str] = []
        salt = hashlib.sha256(self._job.source.encode()).digest()[0]
        bench = Bench(self._session, self._truth, part, self._job.path, self._device(), salt)
        # Technique last: its sealed calls repeat cases of every other check of the part.
        for check in sorted(planned, key=lambda one: isinstance(one.check.rule, UsesKernels)):
            if self._is_timed(check):
                continue
            if reason := self._unfit_here(check):
                yield _result(check, None, status="skipped_environment", reason=reason)
            elif isinstance(check.check.rule, Compiles):
                yield self._compiled(check, check.check.rule)
            elif check.cases == ():
                yield _unjudged(check, self._session)
            elif blocked is not None:
                yield _result(check, blocked)
            elif len(timeouts) >= _MOST_TIMEOUTS:
                reason = f"not run because {' and '.join(timeouts)} ran out of time"
                yield _result(check, None, status="skipped_dependency", reason=reason)
            else:
                with self._stadium.lock.shared() if self._stadium.lock else nullcontext():
                    counted = isinstance(check.check.rule, WorkModel) and self._counting is not self._session
                    result = self._counted(bench, check) if counted else self._check(bench, check)
                self._statuses[check.id] = result.status
                if result.status == "timeout":
                    timeouts.append(check.id)
                if result.status == "not_implemented" and result.cause:
                    blocked = Failure("not_implemented", result.cause)
                yield result
        if blocked is not None:
            self._blocked_parts[part.name] = blocked

    def holds(self, result: CheckResult) -> bool:
        """Whether a result waits for the compiler: the interpreter runs what no GPU would."""
        planned = next(one for one in self._job.plan.checks if one.id == result.id)
        technique = isinstance(planned.check.rule, UsesKernels) and result.status == "pass"
        if held := technique and self._job.compiled and not self._session.runs_on_gpu:
            self._held.append((planned, result))
        return held

    def released(self) -> Iterator[CheckResult]:
        """The results that waited, as the compiler leaves them."""
        for planned, result in self._held:
            nowhere = compiles_nowhere(self._compiling.outcomes(result.part))
            yield _result(planned, nowhere, duration_s=result.duration_s) if nowhere else result

    def speed(self, parts: Sequence[tuple[Part, list[PlannedCheck]]]) -> Iterator[CheckResult]:
        """Judge the speed checks of all parts, whose answers have been judged."""
        planned = [check for _, checks in parts for check in checks if self._is_timed(check)]
        timed = [(check, self._timed(check)) for check in planned]
        # Whatever the submission left running ends here; the baselines are then timed once more, by themselves.
        if timed:
            self._session.restart()
        for check, found in timed:
            yield self._confirmed(check, found) if isinstance(found, Timed) else found

    def is_compiled(self, planned: PlannedCheck) -> bool:
        """Whether a check, here, asks what kernels compile to."""
        return isinstance(planned.check.rule, Compiles) and not self._unfit_here(planned)

    def _compiled(self, planned: PlannedCheck, rule: Compiles) -> CheckResult:
        started = monotonic()
        try:
            outcomes = [
                self._compiling.outcome(planned.part.name, capability, _COMPILE_S) for capability in rule.capabilities
            ]
            ruling = compiles(outcomes, rule)
            if ruling.failure:
                self._clues[planned.id] = clues_in(ruling.failure, planned.part, self._truth)
            status: Status = "inconclusive" if ruling.undecided else "pass"
            seconds = monotonic() - started
            return _result(planned, ruling.failure, None, ruling, seconds, status=status, reason=ruling.undecided)
        except Exception as fault:
            return _result(planned, self._fault(fault), duration_s=monotonic() - started)

    def _is_timed(self, planned: PlannedCheck) -> bool:
        return isinstance(planned.check.rule, SpeedBand) and self._stadium.anchor is not None

    def _unfit_here(self, planned: PlannedCheck) -> str:
        """Why this machine cannot judge a check, and the command that would mend it; empty where it can."""
        for package in planned.part.needs:
            if importlib.util.find_spec(package.module) is None:
                return f"{package.module} is not installed: {package.command}"
        compiled = isinstance(planned.check.rule, Compiles)
        if planned.part.on == "gpu" and not compiled and not self._session.runs_on_gpu:
            return "this part runs on a GPU only, and none is used here"
        return ""

    def _device(self) -> str:
        return self._session.ready.device if self._session.ready else "cpu"

    def _blocked(self, part: Part) -> Failure | None:
        """Why no check of the part can be judged, or None."""
        try:
            # Ending a process that holds a GPU takes seconds; there the parts share one.
            if not self._session.runs_on_gpu:
                self._session.restart()
            return self._load(part)
        except Exception as fault:
            return self._fault(fault)

    def _fault(self, fault: Exception) -> Failure:
        """The verdict on whatever goes wrong in our own code: it costs the learner nothing."""
        with suppress(Exception):
            self._session.restart()
        said = clean(f"{type(fault).__name__}: {fault}", 400)
        return Failure("grader_error", Cause("grader_error", "The grader failed", said, "This is not your fault."))

    def _load(self, part: Part) -> Failure | None:
        if self._load_failure is None:
            loaded = self._session.load()
            if isinstance(loaded, Loaded):
                return None if part.name in loaded.functions else missing_function(part.name, loaded.others)
            assert not isinstance(loaded, Finished)
            self._load_failure = why_not_finished(loaded, self._job.path)
        return self._load_failure

    def _check(self, bench: Bench, planned: PlannedCheck) -> CheckResult:
        started = monotonic()
        try:
            ruling = decide(bench, planned)
            failure, counterexample = ruling.failure, None
            if failure and failure.status not in _NO_CAUSE:
                ruling = replace(ruling, failure=self._look_closer(bench, planned, ruling, monotonic() - started))
            if ruling.failure and ruling.failing:
                failure, counterexample = self._shrunk(bench, planned, ruling.failure, ruling.failing)
            status: Status = "pass"
            if not failure and (ruling.undecided or ruling.unfit):
                status = "inconclusive" if ruling.undecided else "skipped_environment"
            duration_s = monotonic() - started
            reason = ruling.undecided or ruling.unfit
            return _result(planned, failure, counterexample, ruling, duration_s, status=status, reason=reason)
        except Exception as fault:
            return _result(planned, self._fault(fault), duration_s=monotonic() - started)

    def _look_closer(self, bench: Bench, planned: PlannedCheck, ruling: Ruling, seconds: float) -> Failure | None:
        """Keep what a failure points to, and say which one is to be shown.

        A card explains a failure: nothing that goes wrong here is the learner's.
        """
        assert ruling.failure is not None
        shown: Failure | None = ruling.failure
        others = [clues for name, clues in self._clues.items() if name.startswith(f"{planned.part.name}.")]
        known = any(clue.confirmed for clues in others for clue in clues)
        self._tried[planned.part.name] = bench.tried
        self._words[planned.id] = ruling.failure.lead, ruling.failure.advice
        try:
            clues, shown = gathered(bench, ruling, known=known)
            calls = max(1, int(float(ruling.metrics.get("cases", 1))))
            if not others and seconds / calls <= _PROBE_S and not any(clue.confirmed for clue in clues):
                clues += again(bench, ruling.failure)
            self._clues[planned.id] = clues
        except Exception:
            self._clues[planned.id] = []
        return shown

    def explained(self, planned: PlannedCheck, result: CheckResult) -> CheckResult:
        """The check's result with what may be behind its failure, by all that was seen of the part."""
        if result.cause is None or result.status in _NO_CAUSE:
            return result
        part, exercise = planned.part, self._job.entry.exercise
        own = self._clues.get(result.id)
        if own is None:
            own = clues_in(Failure(result.status, result.cause), part, self._truth)
        elsewhere = [
            clue
            for name, clues in self._clues.items()
            if name != result.id and name.startswith(f"{part.name}.")
            for clue in clues
        ]
        try:
            suspects = suspects_of(
                own,
                elsewhere,
                self._tried.get(part.name, []),
                space_of(part),
                exercise.contrasts,
                known_kinds(exercise.kinds),
                part.name,
            )
        except Exception:
            return result
        return replace(result, cause=explained(result.cause, suspects, *self._words.get(result.id, ())))

    def _counted(self, bench: Bench, planned: PlannedCheck) -> CheckResult:
        """A work check of a grading on a GPU. What the interpreter cannot run costs nothing."""
        counting = replace(bench, session=self._counting, device="cpu", evidence=[], passed=[])
        result = self._check(counting, planned)
        if result.status in ("pass", "grader_error") or (result.cause and result.cause.kind in _COUNTED):
            return result
        said = result.cause.rationale if result.cause else result.status
        reason = f"bytes are counted in the interpreter, where this call did not succeed: {said}"
        return replace(_result(planned, None, status="skipped_environment", reason=reason), notes=result.notes)

    def has_something_to_time(self, parts: Sequence[tuple[Part, list[PlannedCheck]]]) -> bool:
        """Whether some part's answers are right, and its speed is asked for."""
        return any(
            self._is_timed(check) and part.name not in self._blocked_parts and not self._unfit(part)
            for part, checks in parts
            for check in checks
        )

    def _unfit(self, part: Part) -> str:
        """The first check on answers and technique that did not pass; empty where all did."""
        needed = [check for check in part.checks if isinstance(check.rule, Agrees | Fresh | UsesKernels)]
        names = [check_id(part, check) for check in needed]
        return next((name for name in names if self._statuses.get(name, "pass") != "pass"), "")

    def _timed(self, planned: PlannedCheck) -> CheckResult | Timed:
        """The verdict on speed, of a part whose answers are right and whose own kernels give them; to be confirmed."""
        if blocked := self._blocked_parts.get(planned.part.name):
            return _result(planned, blocked)
        if unfit := self._unfit(planned.part):
            return _result(planned, None, status="skipped_dependency", reason=f"timed once {unfit} passes")
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
            return _result(planned, self._fault(fault), duration_s=monotonic() - started)

    def _confirmed(self, planned: PlannedCheck, timed: Timed) -> CheckResult:
        started = monotonic()
        assert self._stadium.lock is not None
        verdict = timed.verdict
        try:
            if not (verdict.failure or verdict.undecided):
                with self._stadium.lock.alone():
                    verdict = timed.suite.confirm(verdict)
        except Exception as fault:
            failed = _result(planned, self._fault(fault), duration_s=timed.duration_s)
            return replace(failed, speed=timed.verdict.speed)
        duration_s = timed.duration_s + monotonic() - started
        status: Status = "inconclusive" if verdict.undecided else "pass"
        result = _result(planned, verdict.failure, duration_s=duration_s, status=status, reason=verdict.undecided)
        earned = round(verdict.share * planned.check.points, 2) if result.status == "pass" else 0.0
        return replace(result, points=earned, speed=verdict.speed)

    def predicted(
        self, planned: PlannedCheck, found: Mapping[str, CheckResult], gpu: machine.Gpu | None
    ) -> CheckResult:
        """The check's result; for a check on speed, of a part with right answers, with what the roofline predicts."""
        result, band = found[planned.id], planned.check.rule
        if not isinstance(band, SpeedBand) or self._unfit(planned.part):
            return result
        counted = [work for other in found.values() if other.part == result.part for work in other.work]
        if result.speed is not None:
            name = gpu.name if gpu else ""
            return replace(result, predictions=prediction.beside_measured(name, band, result.speed, counted))
        if result.status == "skipped_environment":
            return replace(result, predictions=prediction.on_paper(band, counted))
        return result

    def _shrunk(
        self, bench: Bench, planned: PlannedCheck, failure: Failure, failing: PlannedCase
    ) -> tuple[Failure, Counterexample | None]:
        """The failure, and the smallest case that fails in the same way."""
        if failure.status == "not_implemented":
            return failure, None
        budget_s = min(_SHRINK_CHECK_S, self._shrink_left_s)
        if planned.space is None or not self._job.shrink or not shrinkable(planned, failure) or budget_s <= 0:
            return failure, self._counterexample(planned, failing)
        started = monotonic()

        def fails(case: Case) -> bool:
            found = failure_of(bench, planned, replace(failing, case=case))
            return found is not None and found.status == failure.status

        with bench.aside():
            found = smallest(planned.space, failing.case, fails, budget_s)
            least = replace(failing, case=found.case)
            again = failure_of(bench, planned, least)
        self._shrink_left_s -= monotonic() - started
        if again is None or again.status != failure.status:
            return failure, self._counterexample(planned, failing)
        plain = self._counterexample(planned, least)
        return failure, replace(plain, rationale=again.cause.rationale, passes=found.passes, tried=found.tried)

    def _counterexample(self, planned: PlannedCheck, one: PlannedCase) -> Counterexample:
        token = ReplayToken(self._job.entry.id, planned.id, one.case, one.seed)
        return Counterexample(dict(one.case), one.case.words(), str(token))


def _result(
    planned: PlannedCheck,
    failure: Failure | None,
    counterexample: Counterexample | None = None,
    ruling: Ruling | None = None,
    duration_s: float = 0.0,
    *,
    status: Status = "pass",
    reason: str = "",
) -> CheckResult:
    decided: Status = failure.status if failure else status
    return CheckResult(
        id=planned.id,
        part=planned.part.name,
        title=planned.check.title,
        objective=planned.check.objective,
        status=decided,
        points=_earned(planned, ruling) if decided == "pass" else 0.0,
        max_points=planned.check.points,
        duration_s=round(duration_s, 4),
        reason=failure.cause.rationale if failure else reason,
        notes=planned.notes,
        cause=failure.cause if failure else None,
        counterexample=counterexample,
        evidence=ruling.evidence if ruling else {},
        metrics=ruling.metrics if ruling else {},
        work=ruling.work if ruling else (),
        selection=ruling.selection if ruling else None,
    )


def _earned(planned: PlannedCheck, ruling: Ruling | None) -> float:
    share = ruling.share if ruling else 1.0
    return planned.check.points if share == 1 else round(share * planned.check.points, 2)


def _unjudged(planned: PlannedCheck, session: Session) -> CheckResult:
    """A check that runs no cases of its own: what this version cannot judge yet, said in words."""
    match planned.check.rule:
        case SpeedBand() if not session.runs_on_gpu:
            reason = "speed is judged on a GPU only, and none is used here"
        case SpeedBand():
            reason = "nothing is timed in this run"
        case _:
            reason = "no case of this check can run on this machine"
    return _result(planned, None, status="skipped_environment", reason=reason)
