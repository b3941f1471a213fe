"""Grades one submission against one exercise: plan in, record out. Does no input or output of its own.

Each part runs in a fresh process; on a GPU, where a process is dear, the parts share one. A check that fails is shrunk
to its smallest failing case; a process that dies is replaced and the remaining checks go on. Speed comes last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import groupby
from time import monotonic

from grader import __version__, machine
from grader.catalogue import Entry
from grader.judge.bench import Bench
from grader.judge.causes import Failure, missing_function, why_not_finished
from grader.judge.rules import decide, failure_of, shrinkable
from grader.judge.ruling import Ruling
from grader.judge.truth import Truth
from grader.model.cases import Case
from grader.model.exercise import Agrees, Fresh, Part, SpeedBand, UsesKernels, WorkModel, check_id
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
from grader.sandbox.server import ForkServer
from grader.sandbox.session import Session
from grader.shrink import smallest
from grader.speed.anchor import Anchor
from grader.speed.lock import GpuLock
from grader.speed.scout import Scout
from grader.speed.suite import Suite, Verdict

_SHRINK_CHECK_S = 2.0
_SHRINK_TOTAL_S = 5.0
# A part that ran out of time this often is not waited for again.
_MOST_TIMEOUTS = 2
# What a work check finds out; anything else that goes wrong there is the business of other checks.
_COUNTED = frozenset({"traffic", "memory", "out_of_bounds", "race"})


@dataclass(frozen=True)
class Job:
    """One grading: what is graded, against what, by which plan. `path` is shown; `source` is what runs.

    timed: whether speed is judged, where there is a GPU; all_baselines: also beside baselines that are slow to compile.
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


def grade(
    job: Job,
    server: ForkServer,
    on_result: Callable[[CheckResult], None] = lambda result: None,
    anchor: Anchor | None = None,
) -> Record:
    """Grade the job's submission in children of `server`; `on_result` hears of every check as it is decided.

    All answers are judged first, then speed. `anchor` is one that was started early; without it, one is started where
    something is timed.
    """
    started = monotonic()
    exercise = job.entry.exercise
    truth = Truth(job.entry.source("inputs.py"), job.entry.source("oracle.py"))
    start = Start(
        submission_name=f"{job.entry.name}.py",
        submission=job.source,
        inputs=job.entry.source("inputs.py"),
        functions=tuple(part.name for part in exercise.parts),
    )
    gpu = machine.find_gpu() if server.mode == "gpu" else None
    shelf = shelf_for(job.source, (machine.version("triton"), machine.version("torch"))) if gpu else None
    parts = [(part, list(planned)) for part, planned in groupby(job.plan.checks, key=lambda check: check.part)]
    results: list[CheckResult] = []
    with (
        Scratch(shelf) as scratch,
        Session(server, start, exercise.limits, scratch) as session,
        _counting(job, server, start, session) as counting,
        _stadium(job, gpu, anchor) as stadium,
    ):
        grading = _Grading(job, session, truth, stadium, counting)

        def hear(found: Iterator[CheckResult]) -> None:
            for result in found:
                results.append(result)
                on_result(result)

        def scout(lock: GpuLock) -> Scout:
            return Scout(server, start, exercise.limits, scratch, lock)

        with _scouted(stadium, [part for part, _ in parts], scout) as sent:
            for part, planned in parts:
                hear(grading.part(part, planned))
            if sent and grading.has_something_to_time(parts):
                sent.recall()
        hear(grading.speed(parts))
        isolation = session.ready.isolation if session.ready else ()
    order = {planned.id: place for place, planned in enumerate(job.plan.checks)}
    checks = tuple(sorted(results, key=lambda result: order[result.id]))
    return Record(
        schema=SCHEMA,
        tool=Tool("grade", __version__),
        exercise=ExerciseInfo(job.entry.id, job.entry.name, exercise.title, exercise.version, job.entry.sha256()),
        submission=SubmissionInfo(job.path, hashlib.sha256(job.source.encode()).hexdigest(), job.student),
        env=machine.environment(server.mode, isolation, gpu),
        seed=f"{job.plan.seed:#x}",
        command=job.command,
        verdict=verdict_of(checks),
        score=sum(check.points for check in checks),
        judged_score=sum(check.max_points for check in checks if check.status not in UNJUDGED),
        max_score=sum(check.max_points for check in checks),
        parts=tuple(PartInfo(part.name, part.title) for part, _ in parts),
        checks=checks,
        printed=PrintedOutput(
            clean(session.printed.text, 12000), session.printed.total_bytes, session.printed.cut_bytes
        ),
        graded_at=job.graded_at,
        duration_s=round(monotonic() - started, 3),
    )


@dataclass(frozen=True)
class _Stadium:
    """Where speed is judged: the trusted process on the GPU (None: nothing is timed), and the GPU's lock."""

    anchor: Anchor | None
    lock: GpuLock | None
    uuid: str


@dataclass(frozen=True)
class _Timed:
    """A speed verdict that waits to be confirmed."""

    suite: Suite
    verdict: Verdict
    duration_s: float


@contextmanager
def _stadium(job: Job, gpu: machine.Gpu | None, anchor: Anchor | None) -> Iterator[_Stadium]:
    if gpu is None:
        yield _Stadium(None, None, "")
        return
    lock = GpuLock(gpu.uuid)
    if not job.timed or not any(isinstance(planned.check.rule, SpeedBand) for planned in job.plan.checks):
        yield _Stadium(None, lock, gpu.uuid)
        return
    with nullcontext(anchor) if anchor else Anchor(job.entry) as running:
        yield _Stadium(running, lock, gpu.uuid)


@contextmanager
def _counting(job: Job, server: ForkServer, start: Start, session: Session) -> Iterator[Session]:
    """Where bytes are counted: in the interpreter, which on a GPU is another process of the submission."""
    counted = any(isinstance(planned.check.rule, WorkModel) for planned in job.plan.checks)
    if server.mode == "interpret" or not counted:
        yield session
        return
    with Session(server.beside("interpret"), start, job.entry.exercise.limits) as counting:
        yield counting


@contextmanager
def _scouted(stadium: _Stadium, parts: Sequence[Part], made: Callable[[GpuLock], Scout]) -> Iterator[Scout | None]:
    """While the block runs, a scout goes ahead, where something will be timed; behind it, the scout has ended."""
    if stadium.anchor is None or stadium.lock is None:
        yield None
        return
    with made(stadium.lock) as scout:
        scout.send(parts)
        yield scout


class _Grading:
    """The state of one grading: whether the file loads, and how much time shrinking has left."""

    def __init__(self, job: Job, session: Session, truth: Truth, stadium: _Stadium, counting: Session) -> None:
        self._job = job
        self._counting = counting
        self._stadium = stadium
        self._session = session
        self._truth = truth
        self._load_failure: Failure | None = None
        self._statuses: dict[str, Status] = {}
        self._blocked_parts: dict[str, Failure] = {}
        self._shrink_left_s = _SHRINK_TOTAL_S

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
            if check.cases == ():
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

    def speed(self, parts: Sequence[tuple[Part, list[PlannedCheck]]]) -> Iterator[CheckResult]:
        """Judge the speed checks of all parts, whose answers have been judged."""
        planned = [check for _, checks in parts for check in checks if self._is_timed(check)]
        timed = [(check, self._timed(check)) for check in planned]
        # Whatever the submission left running ends here; the baselines are then timed once more, by themselves.
        if timed:
            self._session.restart()
        for check, found in timed:
            yield self._confirmed(check, found) if isinstance(found, _Timed) else found

    def _is_timed(self, planned: PlannedCheck) -> bool:
        return isinstance(planned.check.rule, SpeedBand) and self._stadium.anchor is not None

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
            if ruling.failure and ruling.failing:
                failure, counterexample = self._shrunk(bench, planned, ruling.failure, ruling.failing)
            status: Status = "inconclusive" if ruling.undecided and not failure else "pass"
            duration_s = monotonic() - started
            return _result(planned, failure, counterexample, ruling, duration_s, status=status, reason=ruling.undecided)
        except Exception as fault:
            return _result(planned, self._fault(fault), duration_s=monotonic() - started)

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

    def _timed(self, planned: PlannedCheck) -> CheckResult | _Timed:
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
                return _Timed(suite, suite.judge(), monotonic() - started)
        except Exception as fault:
            return _result(planned, self._fault(fault), duration_s=monotonic() - started)

    def _confirmed(self, planned: PlannedCheck, timed: _Timed) -> CheckResult:
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
        points=planned.check.points if decided == "pass" else 0.0,
        max_points=planned.check.points,
        duration_s=round(duration_s, 4),
        reason=failure.cause.rationale if failure else reason,
        notes=planned.notes,
        cause=failure.cause if failure else None,
        counterexample=counterexample,
        evidence=ruling.evidence if ruling else {},
        metrics=ruling.metrics if ruling else {},
        work=ruling.work if ruling else (),
    )


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
