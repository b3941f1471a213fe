"""Record calls of a submission's parts for one GPU, and compile their kernels.

Takes parts; gives one outcome for each case. It chooses the case to compile: one per part, and for a check on compiled
kernels one for each further dtype.

    a process of the submission, which finds that GPU -> trace -> a clean process, which compiles it -> outcome

Runs no kernel. Judges nothing: the rules read the outcomes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from math import prod

from grader.compile.outcome_cache import CompileOutcome, RecordedForm
from grader.exercise.cases import FAMILY, PLAIN, Case
from grader.exercise.formula import evaluate
from grader.exercise.model import Part
from grader.gpus import Architecture
from grader.grading.compile_outcomes import compiled_outcome, described_kernels, not_compiled, recorded_outcome
from grader.judge.idle_kernels import owners, unreached
from grader.judge.kernel_groups import JudgedCall
from grader.protocol.answers import Compiled, Loaded
from grader.protocol.requests import Recipe, RecordCall
from grader.protocol.trace import Launch, Trace, every_launch
from grader.record.launches import Grid
from grader.sandbox.clean_compiler import CleanCompiler
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.session import Session

# A moderate size. Kernels depend on the divisors of a size, hardly on the size itself: a large one would only fill the
# memory.
_MOST_BYTES = 64 << 20
_SEED = 0


def case_for(part: Part) -> Case | None:
    """Return the case of a part to compile, or None if it has none.

    The largest timed case of at most 64 MiB; without one, the last named case of a check that judges values.
    """
    for band in part.speed_bands:
        sizes = {case: evaluate(band.bytes, case) for case in band.suite.named_cases}
        moderate = [case for case, size in sizes.items() if size <= _MOST_BYTES]
        if moderate:
            return max(moderate, key=sizes.__getitem__)
    judged = (check.cases.named_cases[-1:] for check in part.checks if check.rule.judges_values and check.cases)
    return next(chain.from_iterable(judged), None)


def telling_cases(part: Part) -> tuple[Case, ...]:
    """Return a case for each dtype of a part, by which the form of a result is told from others.

    Of the named cases of checks that judge values: the one in which most sizes differ, and of these the smallest.
    """
    named = [
        case
        for check in part.checks
        if check.rule.judges_values and check.cases
        for case in check.cases.named_cases
        if case.get(FAMILY, PLAIN) == PLAIN
    ]
    sizes = {case: [one for one in case.values() if type(one) is int] for case in named}
    by_dtype = {case.get("dtype"): [one for one in named if one.get("dtype") == case.get("dtype")] for case in named}
    return tuple(min(same, key=lambda one: (-len({*sizes[one]}), prod(sizes[one]))) for same in by_dtype.values())


class TargetCompiler:
    """Records and compiles for one GPU.

    server: returns a server of mode "compile", which starts the process that records. compiler: compiles; who made it
    ends its process. every: compile all configurations of autotuned kernels. limit_s: for one part. for_checks: also
    compile and record what checks on compiled kernels judge.
    """

    def __init__(
        self,
        spec: Callable[[], ProcessSpec],
        target: Architecture,
        compiler: CleanCompiler,
        *,
        every: bool,
        limit_s: float,
        for_checks: bool,
    ) -> None:
        self.target = target
        self._spec = spec
        self._every = every
        self._limit_s = limit_s
        self._for_checks = for_checks
        self._session: Session | None = None
        self._compiler = compiler
        self._stopped = threading.Event()

    @property
    def pid(self) -> int | None:
        """Return the id of the process that records, or None."""
        return self._session.pid if self._session else None

    def stop(self) -> None:
        """End the running processes. What another thread does with them fails soon."""
        self._stopped.set()
        if self._session is not None:
            self._session.restart()
        self._compiler.restart()

    def end_recording(self) -> None:
        """End the process that records."""
        if self._session is not None:
            self._session.__exit__()
            self._session = None

    def check(self, judged: JudgedCall) -> CompileOutcome:
        """Return the compiler's verdict on the kernels of a judged call; it holds the refused kernels."""
        recorded = judged.recorded
        recipe = recorded.call.recipe
        outcome = CompileOutcome(recipe.part, self.target.name)
        given = recorded.call, recorded.message, self.target.capability
        answer, announced = self._compiler.compile(
            *given, until=judged.until, conditions=judged.conditions, limit_s=self._limit_s
        )
        if isinstance(answer, Compiled):
            return replace(outcome, kernels=described_kernels(answer, self.target, Case(recipe.case)))
        return not_compiled(outcome, answer, announced)

    def compile(self, part: Part) -> list[CompileOutcome]:
        """Return the outcome of the case that the record shows, and those of further cases that a check judges."""
        shown, target = case_for(part), self.target
        outcome = CompileOutcome(part.name, target.name)
        if shown is None or (part.tensors == "cute" and not target.cute_dsl):
            why = f"CuTe's compiler does not know {target.name}" if shown else "the part has no case to compile"
            return [replace(outcome, state="not_asked", why=why)]
        loaded = self._begun().load()
        if isinstance(loaded, Loaded) and part.name not in loaded.functions:
            return [replace(outcome, state="not_implemented", why="the file does not define it")]
        is_judged = self._for_checks and any(target.capability in check.rule.targets for check in part.checks)
        telling = telling_cases(part) if is_judged else ()
        found = [self._compile(part, shown, has_form=shown in telling)]
        for case in telling:
            if case != shown and found[0].state == "compiled" and not self._stopped.is_set():
                is_new = case.get("dtype") != shown.get("dtype")
                further = self._compile(part, case, has_form=True, compiles=is_new)
                found.append(replace(further, case=case.words()))
        return found

    def _compile(
        self,
        part: Part,
        case: Case,
        *,
        has_form: bool,
        compiles: bool = True,
    ) -> CompileOutcome:
        """Record a call, and compile its kernels."""
        outcome = CompileOutcome(part.name, self.target.name, dtype=str(case.get("dtype", "")))
        call = part.call(Recipe(part.name, dict(case), _SEED))
        recorded = self._begun().record(RecordCall(call, afresh=True, inputs="timed"))
        if not isinstance(recorded, tuple):
            return not_compiled(outcome, recorded)
        message, trace = recorded
        if has_form:
            outputs = tuple(one.form for one in trace.outputs)
            reached = owners(trace), *unreached(trace)
            outcome = replace(outcome, form=RecordedForm(call.recipe, outputs, *reached, message.outside_work))
        if not compiles:
            return recorded_outcome(outcome, message.unrecordable)
        answer, announced = self._compiler.compile(
            call, message.trace, self.target.capability, every=self._every, limit_s=self._limit_s
        )
        if not isinstance(answer, Compiled):
            return not_compiled(outcome, answer, announced)
        return compiled_outcome(outcome, answer, self.target, case, message.unrecordable)

    def grids(self, part: Part) -> Iterator[Grid]:
        """Yield the largest launch of the part's call at the timed sizes, smallest first, until one needs too much."""
        if part.tensors == "cute":
            return
        sizes = {case: evaluate(band.bytes, case) for band in part.speed_bands for case in band.suite.named_cases}
        for case in sorted(sizes, key=sizes.__getitem__):
            if self._stopped.is_set():
                return
            call = part.call(Recipe(part.name, dict(case), _SEED))
            recorded = self._begun().record(RecordCall(call, afresh=True, inputs="timed"))
            if not isinstance(recorded, tuple):
                # Another process costs 2 s, and larger sizes need no less.
                return
            if programs := most_programs(recorded[1]):
                yield Grid(dict(case), programs, self.target.gpu.multiprocessors)

    def _begun(self) -> Session:
        if self._session is None:
            self._session = Session(self._spec().targeting(self.target.capability))
        return self._session


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
