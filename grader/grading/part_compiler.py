"""Compile the kernels of a submission's parts beside the grading.

Takes the submission, its parts, and a server of processes. Gives one outcome for each part and each GPU. It chooses the
case to compile: one per part, and for a check on compiled kernels one for each further dtype. It chooses the GPUs: this
machine's, the default ones, and those that a check names.

    a process of the submission, which finds that GPU -> trace -> a clean process, which compiles it -> outcome

For the first of these GPUs, calls at every timed size are recorded as well. Nothing is compiled of these: they show how
many programs a launch has (`grids_of`).

Runs no kernel. Judges nothing: the rules read the outcomes. The parts on the CPU are left out.

The submission may show other kernels for these calls than for those that are judged. So the kernels of judged calls,
whose values earn points, are checked by the compiler as well, from their own traces (`check`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from math import prod
from pathlib import Path
from time import monotonic, sleep

from grader.compile import outcome_cache
from grader.compile.outcome_cache import CompileOutcome, RecordedForm
from grader.exercise.cases import FAMILY, PLAIN, Case
from grader.exercise.formula import evaluate
from grader.exercise.model import Limits, Part
from grader.gpus import ARCHITECTURES, USUAL, Architecture, compiled_for, named, why_unknown
from grader.grading.compile_outcomes import compiled_outcome, described_kernels, late, not_compiled, recorded_outcome
from grader.judge.idle_kernels import owners, unreached
from grader.judge.kernel_groups import JudgedCall
from grader.protocol.messages import Compiled, Loaded, Recipe, RecordCall, Start
from grader.protocol.trace import Launch, Trace, every_launch
from grader.record import CompiledKernel, Grid
from grader.sandbox.cancellation import Cancelled
from grader.sandbox.clean_compiler import CleanCompiler
from grader.sandbox.server import Spawner
from grader.sandbox.session import Session
from grader.text import clean

# A moderate size. Kernels depend on the divisors of a size, hardly on the size itself: a large one would only fill the
# memory.
_MOST_BYTES = 64 << 20
_SEED = 0
_CALL_S = 60.0
_END_S = 20.0


def case_for(part: Part) -> Case | None:
    """Return the case of a part to compile, or None if it has none.

    The largest timed case of at most 64 MiB; without one, the last named case of a check that judges values.
    """
    for band in part.speed_bands:
        sizes = {case: evaluate(band.bytes, case) for case in band.suite.named}
        moderate = [case for case, size in sizes.items() if size <= _MOST_BYTES]
        if moderate:
            return max(moderate, key=sizes.__getitem__)
    judged = (check.cases.named[-1:] for check in part.checks if check.rule.judges_values and check.cases)
    return next(chain.from_iterable(judged), None)


def telling_cases(part: Part) -> tuple[Case, ...]:
    """Return a case for each dtype of a part, by which the form of a result is told from others.

    Of the named cases of checks that judge values: the one in which most sizes differ, and of these the smallest.
    """
    named = [
        case
        for check in part.checks
        if check.rule.judges_values and check.cases
        for case in check.cases.named
        if case.get(FAMILY, PLAIN) == PLAIN
    ]
    sizes = {case: [one for one in case.values() if type(one) is int] for case in named}
    by_dtype = {case.get("dtype"): [one for one in named if one.get("dtype") == case.get("dtype")] for case in named}
    return tuple(min(same, key=lambda one: (-len({*sizes[one]}), prod(sizes[one]))) for same in by_dtype.values())


class PartCompiler:
    """Compiles parts, one after the other. Use as a context manager; its thread and its process end with it.

    Call `send` to compile on a thread, or `run` to compile on the caller's. server: returns a server of mode "compile";
    called once there is something to compile. every: compile all configurations of autotuned kernels. limit_s: for one
    part and one GPU; 0: 60 s. cache_file: of outcomes (grader.compile.outcome_cache), or None. capability: of the GPU
    in this machine, as its driver gives it; kernels are compiled for it first, because it is shown first. for_checks:
    also compile and record what checks on compiled kernels judge.

    targets: the GPUs, in that order. sent: `send` was called.
    """

    def __init__(
        self,
        server: Callable[[], Spawner],
        start: Start,
        limits: Limits,
        parts: Sequence[Part],
        *,
        every: bool = False,
        limit_s: float = 0.0,
        cache_file: Path | None = None,
        capability: str = "",
        for_checks: bool = False,
    ) -> None:
        self._server = server
        self._start = start
        self._limits = limits
        self._parts = tuple(part for part in parts if part.on != "cpu")
        self._every = every
        self._limit_s = limit_s or _CALL_S
        self._cache_file = cache_file
        self._capability = capability
        targets = [target for part in parts for check in part.checks for target in check.rule.targets]
        self.targets = compiled_for(capability, targets)
        self.sent = False
        self._for_checks = for_checks
        # By part and GPU: of the case that the record shows, and of further cases that checks judge.
        self._outcomes: dict[tuple[str, str], CompileOutcome] = {}
        self._further: dict[tuple[str, str], tuple[CompileOutcome, ...]] = {}
        # The process that records now.
        self._session: Session | None = None
        self._compiler = CleanCompiler(server, start, limits)
        self._recalled = threading.Event()
        # A judged call is being checked.
        self._checking = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> PartCompiler:
        return self

    def __exit__(self, *_: object) -> None:
        self.recall(patience_s=0.0)
        self._compiler.__exit__()

    def send(self) -> None:
        """Start the compilation on a thread, once; if the cache holds every outcome, only read them.

        If one is missing, all are compiled again. Sets `sent`. A fault of the grader on the thread becomes the reason
        of every missing outcome; a check that asks for such an outcome is undecided.
        """
        if self.sent:
            return
        self.sent = True
        for outcome in outcome_cache.load(self._cache_file) if self._cache_file else ():
            key = outcome.part, outcome.target
            if outcome.case:
                self._further[key] = (*self._further.get(key, ()), outcome)
            else:
                self._outcomes[key] = outcome
        if not all((part.name, target.name) in self._outcomes for part in self._parts for target in self.targets):
            self._outcomes.clear()
            self._further.clear()
            self._thread = threading.Thread(target=self._run_in_thread, daemon=True)
            self._thread.start()

    def recall(self, patience_s: float) -> None:
        """Wait at most `patience_s` for the compilation, then end its process and its thread.

        Ending them takes up to 20 s more. Outcomes that are missing then read "not compiled in time", and nothing is
        written to the cache.
        """
        thread = self._thread
        if thread is None:
            return
        thread.join(patience_s)
        self._recalled.set()
        deadline = monotonic() + _END_S
        while thread.is_alive() and monotonic() < deadline:
            # The thread may just have started another process.
            if session := self._session:
                session.restart()
            self._compiler.restart()
            thread.join(0.1)

    def judged(self, part: str, capability: int, patience_s: float) -> tuple[CompileOutcome, ...]:
        """Return the outcomes that a check on a part's compiled kernels judges for one GPU. Call `send` first.

        The first is that of the case that the record shows.

        capability: the GPU, a key of ARCHITECTURES. After `patience_s`, or once the thread has ended, a missing outcome
        reads "not compiled in time".
        """
        key = part, ARCHITECTURES[capability].name
        deadline = monotonic() + patience_s
        while key not in self._outcomes and monotonic() < deadline and self._thread and self._thread.is_alive():
            sleep(0.02)
        return self._outcomes.get(key) or late(*key), *self._further.get(key, ())

    def outcomes(self, part: str) -> tuple[CompileOutcome, ...]:
        """Return the outcomes of a part for every GPU, oldest GPU first. Does not wait.

        A missing outcome reads "not compiled in time".
        """
        ordered = sorted(self.targets, key=lambda target: target.capability)
        return tuple(self._outcomes.get((part, one.name)) or late(part, one.name) for one in ordered)

    def kernels_of(self, part: str) -> tuple[tuple[CompiledKernel, ...], dict[str, str]]:
        """Return the kernels of a part, and the reason by GPU where kernels are missing. Does not wait.

        A part that is not implemented, or whose file does not load, gets no reason. A GPU of this machine that is not
        known gets one.
        """
        kernels: list[CompiledKernel] = []
        missing: dict[str, str] = {}
        for outcome in self.outcomes(part):
            kernels += outcome.kernels
            if (
                outcome.state not in ("not_implemented", "unloadable")
                and outcome.why
                and any(part == one.name for one in self._parts)
            ):
                missing[outcome.target] = outcome.why
        if kernels and (why := why_unknown(self._capability)):
            missing[named(self._capability) or "this GPU"] = why
        return tuple(kernels), missing

    def grids_of(self, part: str) -> tuple[Grid, ...]:
        """Return the largest launch of a part's call at each timed size that could be recorded. Does not wait."""
        return next((one.grids for one in self.outcomes(part) if one.grids), ())

    def _run_in_thread(self) -> None:
        try:
            self.run()
            outcomes = (*self._outcomes.values(), *chain.from_iterable(self._further.values()))
            # Compilations that took too long, or too much memory, may succeed the next time.
            if self._cache_file and not self._recalled.is_set() and all(one.lasts for one in outcomes):
                outcome_cache.store(self._cache_file, outcomes)
        except Cancelled:
            # The waiting thread gets the same exception when it asks for its next process.
            return
        except Exception as fault:
            # The grading goes on: the record says what is missing.
            said = clean(f"the grader failed: {type(fault).__name__}: {fault}", 200)
            for part in self._parts:
                for target in self.targets:
                    missing = late(part.name, target.name)
                    if not self._recalled.is_set():
                        missing = replace(missing, state="grader_error", why=said)
                    self._outcomes.setdefault((part.name, target.name), missing)

    def run(self, on_outcome: Callable[[CompileOutcome], None] = lambda outcome: None) -> None:
        """Compile every part for every GPU on the caller's thread, without the cache.

        on_outcome: called with each outcome. Returns early after `recall`. Raises GradeError if no process gets ready.
        """
        server = self._server()
        for target in self.targets:
            start = replace(self._start, target=target.capability)
            with Session(server, start, self._limits) as self._session:
                for part in self._parts:
                    while self._checking.is_set() and not self._recalled.is_set():
                        sleep(0.02)
                    if self._recalled.is_set():
                        return
                    outcome, *further = self._compile_part(self._session, part, target)
                    if target == self.targets[0] and outcome.kernels:
                        outcome = replace(outcome, grids=tuple(self._grids(self._session, part, target)))
                    if self._recalled.is_set():
                        return
                    # Who waits for the outcome reads these next.
                    self._further[part.name, target.name] = tuple(further)
                    self._outcomes[part.name, target.name] = outcome
                    on_outcome(outcome)

    def check(self, judged: JudgedCall) -> list[CompileOutcome]:
        """Return the compiler's verdicts on the kernels of a judged call, for one GPU after another until it accepts.

        An outcome holds the refused kernels. Call it before `recall`, on one thread at a time. The compilation for the
        record waits meanwhile.
        """
        self._checking.set()
        try:
            return self._check(judged)
        finally:
            self._checking.clear()

    def _check(self, judged: JudgedCall) -> list[CompileOutcome]:
        outcomes: list[CompileOutcome] = []
        recorded = judged.recorded
        recipe = recorded.call.recipe
        # A machine without a GPU stands in for the usual one.
        for target in sorted(self.targets, key=lambda target: target != USUAL):
            outcome = CompileOutcome(recipe.part, target.name)
            given = recorded.call, recorded.message, target.capability
            answer, announced = self._compiler.compile(
                *given, until=judged.until, conditions=judged.conditions, limit_s=self._limit_s
            )
            if isinstance(answer, Compiled):
                outcome = replace(outcome, kernels=described_kernels(answer, target, Case(recipe.case)))
            else:
                outcome = not_compiled(outcome, answer, announced)
            outcomes.append(outcome)
            if not outcome.kernels:
                break
        return outcomes

    def _compile_part(self, session: Session, part: Part, target: Architecture) -> list[CompileOutcome]:
        """Return the outcome of the case that the record shows, and those of further cases that a check judges."""
        shown = case_for(part)
        outcome = CompileOutcome(part.name, target.name)
        if shown is None or (part.tensors == "cute" and not target.cute_dsl):
            why = f"CuTe's compiler does not know {target.name}" if shown else "the part has no case to compile"
            return [replace(outcome, state="not_asked", why=why)]
        loaded = session.load()
        if isinstance(loaded, Loaded) and part.name not in loaded.functions:
            return [replace(outcome, state="not_implemented", why="the file does not define it")]
        is_judged = self._for_checks and any(target.capability in check.rule.targets for check in part.checks)
        telling = telling_cases(part) if is_judged else ()
        found = [self._compile(session, part, target, shown, has_form=shown in telling)]
        for case in telling:
            if case != shown and found[0].state == "compiled" and not self._recalled.is_set():
                is_new = case.get("dtype") != shown.get("dtype")
                further = self._compile(session, part, target, case, has_form=True, compiles=is_new)
                found.append(replace(further, case=case.words()))
        return found

    def _compile(
        self,
        session: Session,
        part: Part,
        target: Architecture,
        case: Case,
        *,
        has_form: bool,
        compiles: bool = True,
    ) -> CompileOutcome:
        """Record a call, and compile its kernels."""
        outcome = CompileOutcome(part.name, target.name, dtype=str(case.get("dtype", "")))
        call = part.call(Recipe(part.name, dict(case), _SEED))
        recorded = session.record(RecordCall(call, afresh=True, bare=True))
        if not isinstance(recorded, tuple):
            return not_compiled(outcome, recorded)
        message, trace = recorded
        if has_form:
            outputs = tuple(one.form for one in trace.outputs)
            reached = owners(trace), *unreached(trace)
            outcome = replace(outcome, form=RecordedForm(call.recipe, outputs, *reached, message.deeds))
        if not compiles:
            return recorded_outcome(outcome, message.untold)
        answer, announced = self._compiler.compile(
            call, message.trace, target.capability, every=self._every, limit_s=self._limit_s
        )
        if not isinstance(answer, Compiled):
            return not_compiled(outcome, answer, announced)
        return compiled_outcome(outcome, answer, target, case, message.untold)

    def _grids(self, session: Session, part: Part, target: Architecture) -> Iterator[Grid]:
        """Yield the largest launch of the part's call at the timed sizes, smallest first, until one needs too much."""
        if part.tensors == "cute":
            return
        sizes = {case: evaluate(band.bytes, case) for band in part.speed_bands for case in band.suite.named}
        for case in sorted(sizes, key=sizes.__getitem__):
            if self._recalled.is_set():
                return
            call = part.call(Recipe(part.name, dict(case), _SEED))
            recorded = session.record(RecordCall(call, afresh=True, bare=True))
            if not isinstance(recorded, tuple):
                # Another process costs 2 s, and larger sizes need no less.
                return
            if programs := most_programs(recorded[1]):
                yield Grid(dict(case), programs, target.gpu.multiprocessors)


def most_programs(trace: Trace) -> int:
    """Return the number of programs of the largest launch, 0 if it is not known.

    The programs of a cluster count one by one. An autotuner may choose the configuration with most.
    """
    most = 0
    for launch in every_launch(trace.steps):
        if not isinstance(launch, Launch):
            return 0
        clusters_of = launch.options.get("num_ctas", 1)
        most = max(most, prod(launch.grid) * (clusters_of if isinstance(clusters_of, int) else 1))
    return most
