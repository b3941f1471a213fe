"""Compile the kernels of a submission's parts beside the grading.

Takes the submission, its parts, and a server of processes. Gives one outcome for each part and each GPU. It chooses the
GPUs: this machine's, the default ones, and those that a check names. With many cores it compiles for several of them at
a time.

For the first of these GPUs, calls at every timed size are recorded as well. Nothing is compiled of these: they show how
many programs a launch has (`grids_of`). The parts on the CPU are left out.

The submission may show other kernels for these calls than for those that are judged. So the kernels of judged calls,
whose values earn points, are checked by the compiler as well, from their own traces (`check`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, cycle
from pathlib import Path
from time import monotonic, sleep

from grader.compile import outcome_cache
from grader.compile.outcome_cache import CompileOutcome
from grader.exercise.model import Part
from grader.gpus import ARCHITECTURES, USUAL, compiled_for, named, why_unknown
from grader.grading.compile_outcomes import late
from grader.grading.target_compiler import TargetCompiler
from grader.judge.kernel_groups import JudgedCall
from grader.record.kernels import CompiledKernel
from grader.record.launches import Grid
from grader.sandbox.cancellation import Cancelled
from grader.sandbox.clean_compiler import CleanCompiler
from grader.sandbox.process_spec import ProcessSpec
from grader.text import clean

_CALL_S = 60.0
_END_S = 20.0
# Cores for one more GPU at a time: a recorder, a compiler, and the grading itself.
_CORES_EACH = 4


def _gpus_at_once() -> int:
    return max(1, len(os.sched_getaffinity(0)) // _CORES_EACH)


class PartCompiler:
    """Compiles parts, one after the other. Use as a context manager; its threads and processes end with it.

    Call `send` to compile on a thread, or `run` to compile on the caller's. spec: returns how a process of mode
    "compile" is started; called once there is something to compile. every: compile all configurations of autotuned
    kernels. limit_s: for one part and one GPU; 0: 60 s. cache_file: of outcomes (grader.compile.outcome_cache), or
    None. capability: of the GPU in this machine, as its driver gives it; kernels are compiled for it first, because it
    is shown first. for_checks: also compile and record what checks on compiled kernels judge.

    targets: the GPUs, in that order. sent: `send` was called.
    """

    def __init__(
        self,
        spec: Callable[[], ProcessSpec],
        parts: Sequence[Part],
        *,
        every: bool = False,
        limit_s: float = 0.0,
        cache_file: Path | None = None,
        capability: str = "",
        for_checks: bool = False,
    ) -> None:
        self._parts = tuple(part for part in parts if part.on != "cpu")
        self._cache_file = cache_file
        self._capability = capability
        targets = [target for part in parts for check in part.checks for target in check.rule.targets]
        self.targets = compiled_for(capability, targets)
        self.sent = False
        self._clean = [CleanCompiler(spec) for _ in range(_gpus_at_once())]
        self._compilers = [
            TargetCompiler(
                *(spec, target, compiler),
                every=every,
                limit_s=limit_s or _CALL_S,
                for_checks=for_checks,
            )
            for target, compiler in zip(self.targets, cycle(self._clean), strict=False)
        ]
        # By part and GPU: of the case that the record shows, and of further cases that checks judge.
        self._outcomes: dict[tuple[str, str], CompileOutcome] = {}
        self._further: dict[tuple[str, str], tuple[CompileOutcome, ...]] = {}
        self._noting = threading.Lock()
        self._recalled = threading.Event()
        # A judged call is being checked.
        self._checking = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> PartCompiler:
        return self

    def __exit__(self, *_: object) -> None:
        self.recall(patience_s=0.0)
        for compiler in self._clean:
            compiler.__exit__()

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
            for compiler in self._compilers:
                compiler.stop()
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
        """Compile every part for every GPU, without the cache.

        on_outcome: called with each outcome, by one thread at a time. Returns early after `recall`. Raises GradeError
        if no process gets ready.
        """
        with ThreadPoolExecutor(len(self._clean), "compile") as pool:
            for running in [pool.submit(self._run_for, one, on_outcome) for one in self._compilers]:
                running.result()

    def _run_for(self, compiler: TargetCompiler, on_outcome: Callable[[CompileOutcome], None]) -> None:
        """Compile every part for one GPU."""
        target = compiler.target.name
        try:
            for part in self._parts:
                while self._checking.is_set() and not self._recalled.is_set():
                    sleep(0.02)
                if self._recalled.is_set():
                    return
                outcome, *further = compiler.compile(part)
                if compiler is self._compilers[0] and outcome.kernels:
                    outcome = replace(outcome, grids=tuple(compiler.grids(part)))
                if self._recalled.is_set():
                    return
                with self._noting:
                    # Who waits for the outcome reads these next.
                    self._further[part.name, target] = tuple(further)
                    self._outcomes[part.name, target] = outcome
                    on_outcome(outcome)
        finally:
            compiler.end_recording()

    def check(self, judged: JudgedCall) -> list[CompileOutcome]:
        """Return the compiler's verdicts on the kernels of a judged call, for one GPU after another until it accepts.

        An outcome holds the refused kernels. Call it before `recall`, on one thread at a time. The compilation for the
        record waits meanwhile.
        """
        outcomes: list[CompileOutcome] = []
        self._checking.set()
        try:
            # A machine without a GPU stands in for the usual one.
            for compiler in sorted(self._compilers, key=lambda one: one.target != USUAL):
                outcomes.append(compiler.check(judged))
                if not outcomes[-1].kernels:
                    break
        finally:
            self._checking.clear()
        return outcomes
