"""Compile the kernels of a submission's parts beside the grading.

Takes the submission, its parts, and a server of processes. Gives one outcome for each part and each GPU. It chooses the
case to compile: one per part. It chooses the GPUs: this machine's, the default ones, and those that a check names.

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

from grader.compile import cache
from grader.compile.cache import CompileOutcome
from grader.compile.findings import MOST_KERNELS, described
from grader.exercise.cases import Case
from grader.exercise.formula import evaluate
from grader.exercise.gpus import ARCHITECTURES, USUAL, Architecture, compiled_for, named, why_unknown
from grader.exercise.model import Limits, Part
from grader.judge.launched import JudgedCall
from grader.phrases import counted
from grader.protocol.messages import UNTOLD, Compiled, Loaded, Raised, Recipe, RecordCall, Start
from grader.protocol.trace import Choose, CuteCall, Deed, Launch, Step, Trace
from grader.record import CompiledKernel, Grid
from grader.sandbox.cancellation import Cancelled
from grader.sandbox.compiling import CleanCompiler
from grader.sandbox.outcome import CompiledTooLong, Died, Garbled, OutOfMemory, OutOfSpace, TimedOut, Unanswered
from grader.sandbox.server import Spawner
from grader.sandbox.session import Session
from grader.text import clean, one_line

# A moderate size. Kernels depend on the divisors of a size, hardly on the size itself: a large one would only fill the
# memory.
_MOST_BYTES = 64 << 20
_SEED = 0
_CALL_S = 60.0
_END_S = 20.0
NO_KERNEL = "no Triton kernel was launched"
LATE = "not compiled in time"
# A reason that begins like this is not the submission's fault.
GRADER_FAILED = "the grader failed"
# Nor is this one: launch code or a kernel cannot be expressed as data.
UNRECORDED = "not compiled, because it cannot be recorded"


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


class Compiling:
    """Compiles parts, one after the other. Use as a context manager; its thread and its process end with it.

    Call `send` to compile on a thread, or `run` to compile on the caller's. server: returns a server of mode "compile";
    called once there is something to compile. every: compile all configurations of autotuned kernels. limit_s: for one
    part and one GPU; 0: 60 s. cache_file: of outcomes (grader.compile.cache), or None. capability: of the GPU
    in this machine, as its driver gives it; kernels are compiled for it first, because it is shown first.

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
        self._outcomes: dict[tuple[str, str], CompileOutcome] = {}
        # The process that records now.
        self._session: Session | None = None
        self._compiler = CleanCompiler(server, start, limits)
        self._recalled = threading.Event()
        # A judged call is being checked.
        self._checking = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Compiling:
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
        for outcome in cache.load(self._cache_file) if self._cache_file else ():
            self._outcomes[outcome.part, outcome.target] = outcome
        if not all((part.name, target.name) in self._outcomes for part in self._parts for target in self.targets):
            self._outcomes.clear()
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

    def outcome(self, part: str, capability: int, patience_s: float) -> CompileOutcome:
        """Return the outcome of a part for one GPU as soon as it is known. Call `send` first.

        capability: the GPU, a key of ARCHITECTURES. After `patience_s`, or once the thread has ended, a missing outcome
        reads "not compiled in time".
        """
        key = part, ARCHITECTURES[capability].name
        deadline = monotonic() + patience_s
        while key not in self._outcomes and monotonic() < deadline and self._thread and self._thread.is_alive():
            sleep(0.02)
        return self._outcomes.get(key) or CompileOutcome(*key, why=LATE)

    def outcomes(self, part: str) -> tuple[CompileOutcome, ...]:
        """Return the outcomes of a part for every GPU, oldest GPU first. Does not wait.

        A missing outcome reads "not compiled in time".
        """
        ordered = sorted(self.targets, key=lambda target: target.capability)
        missing = (CompileOutcome(part, target.name, why=LATE) for target in ordered)
        return tuple(self._outcomes.get((part, one.target)) or one for one in missing)

    def kernels_of(self, part: str) -> tuple[tuple[CompiledKernel, ...], dict[str, str]]:
        """Return the kernels of a part, and the reason by GPU where kernels are missing. Does not wait.

        A part that is not implemented gets no reason. A GPU of this machine that is not known gets one.
        """
        kernels: list[CompiledKernel] = []
        missing: dict[str, str] = {}
        for outcome in self.outcomes(part):
            kernels += outcome.kernels
            if outcome.implemented and outcome.why and any(part == one.name for one in self._parts):
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
            outcomes = tuple(self._outcomes.values())
            # Compilations that took too long, or too much memory, may succeed the next time.
            if (
                self._cache_file
                and not self._recalled.is_set()
                and all(not (o.implemented and o.why) for o in outcomes)
            ):
                cache.store(self._cache_file, outcomes)
        except Cancelled:
            # The waiting thread gets the same exception when it asks for its next process.
            return
        except Exception as fault:
            # The grading goes on: the record says what is missing.
            said = clean(f"{GRADER_FAILED}: {type(fault).__name__}: {fault}", 200)
            for part in self._parts:
                for target in self.targets:
                    key = part.name, target.name
                    self._outcomes.setdefault(key, CompileOutcome(*key, why=LATE if self._recalled.is_set() else said))

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
                    outcome = self._compile(self._session, part, target)
                    if target == self.targets[0] and outcome.kernels:
                        outcome = replace(outcome, grids=tuple(self._grids(self._session, part, target)))
                    if self._recalled.is_set():
                        return
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
                outcome = replace(outcome, kernels=_described(answer, target, Case(recipe.case)))
            else:
                why = _why_not_compiled(answer, one_line(announced, 120))
                is_late = isinstance(answer, TimedOut | CompiledTooLong)
                gave_up = not is_late and not isinstance(answer, Raised | Garbled)
                outcome = replace(outcome, why=why, gave_up=gave_up, is_late=is_late)
            outcomes.append(outcome)
            if not outcome.kernels:
                break
        return outcomes

    def _compile(self, session: Session, part: Part, target: Architecture) -> CompileOutcome:
        outcome = CompileOutcome(part.name, target.name)
        case = case_for(part)
        if case is None or (part.tensors == "cute" and not target.cute_dsl):
            no_case = "the part has no case to compile"
            return replace(outcome, why=f"CuTe's compiler does not know {target.name}" if case else no_case)
        loaded = session.load()
        if isinstance(loaded, Loaded) and part.name not in loaded.functions:
            return replace(outcome, why="the file does not define it", implemented=False)
        call = part.call(Recipe(part.name, dict(case), _SEED))
        recorded = session.record(RecordCall(call, afresh=True, bare=True))
        if not isinstance(recorded, tuple):
            return _not_recorded(outcome, recorded)
        message, _ = recorded
        answer, announced = self._compiler.compile(
            call, message.trace, target.capability, every=self._every, limit_s=self._limit_s
        )
        if isinstance(answer, Compiled):
            kernels = _described(answer, target, case)
            return replace(outcome, kernels=kernels, why=_missing_words(answer, len(kernels), message.untold))
        return replace(outcome, why=_why_not_compiled(answer, one_line(announced, 120)))

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
    for launch in _every_launch(trace.steps):
        if not isinstance(launch, Launch):
            return 0
        clusters_of = launch.options.get("num_ctas", 1)
        most = max(most, prod(launch.grid) * (clusters_of if isinstance(clusters_of, int) else 1))
    return most


def _every_launch(steps: Sequence[Step]) -> Iterator[Launch | CuteCall]:
    for step in steps:
        match step:
            case Launch() | CuteCall():
                yield step
            case Choose(alternatives):
                for alternative in alternatives:
                    yield from _every_launch(alternative)


def _described(answer: Compiled, target: Architecture, case: Case) -> tuple[CompiledKernel, ...]:
    """Return the kernels of an answer as the record shows them."""
    described_ones = (described(binary, target, case.words()) for binary in answer.binaries[:MOST_KERNELS])
    return tuple(kernel for kernel in described_ones if kernel is not None)


def _not_recorded(outcome: CompileOutcome, answer: Raised | Unanswered) -> CompileOutcome:
    """Return the outcome of a call that was not recorded."""
    if isinstance(answer, Raised) and answer.verdict == "not_implemented":
        return replace(outcome, why="not implemented yet", implemented=False)
    if isinstance(answer, Raised) and answer.verdict == "invalid_submission":
        return replace(outcome, why=f"the file does not load: {_raised_words(answer)}", implemented=False)
    return replace(outcome, why=_why_not_compiled(answer, ""))


def _missing_words(answer: Compiled, listed: int, untold: Sequence[Deed]) -> str:
    """Return what an answer lacks, in words; '' if nothing.

    listed: the kernels that are shown. untold: what could not be recorded.
    """
    if untold:
        return f"{UNRECORDED}: {one_line(untold[0].name, 300)} (line {untold[0].line})"
    if answer.stopped:
        return f"the launch code raised {one_line(answer.stopped, 300)}"
    beyond = len(answer.binaries) + max(answer.cut, 0) - listed
    if beyond:
        return f"{counted(beyond, 'more kernel was', 'more kernels were')} launched than are listed"
    return "" if listed else NO_KERNEL


def _why_not_compiled(answer: object, announced: str) -> str:
    during = f" while compiling {announced}" if announced else ""
    match answer:
        case Raised():
            how = f"{UNRECORDED}:" if answer.kind == UNTOLD else "the launch code raised"
            return f"{how} {_raised_words(answer)}"
        case TimedOut() | CompiledTooLong():
            return f"not done within {answer.limit_s:g} s{during}"
        case Died():
            return f"the process {answer.how}{during}"
        case OutOfMemory():
            return f"more than {answer.limit_bytes >> 20} MiB of memory were used{during}"
        case OutOfSpace():
            return f"more than {answer.limit_bytes >> 20} MiB of files were written{during}"
        case Garbled():
            return "the process sent an invalid answer"
    raise AssertionError(f"an outcome must be one of {Unanswered}, got {answer}")


def _raised_words(answer: Raised) -> str:
    place = f" (line {answer.frames[-1].line})" if answer.frames else ""
    return f"{one_line(answer.kind, 80)}: {one_line(answer.message, 300)}{place}"
