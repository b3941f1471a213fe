"""Grades mutants and honest solutions as a learner's file is graded, and beside it by the usual protocol of one shape.

That protocol is what benchmarks of generated kernels do: five random inputs of a single shape, compared with the truth
by `torch.allclose` at 1e-2 (1e-4 in float32). Here it, too, runs the file in a confined process of its own, where
outputs are poisoned and accesses outside a tensor are not carried out; of what the guard saw it uses nothing.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from time import monotonic

import torch

from benchmarks.accuracy.mutate import Mutant, mutants, reached_from, sample, trapped
from benchmarks.accuracy.results import Journal, Kind, Result, key_of
from grader.exercise.abilities import Abilities
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.exercise.model import Part, check_id
from grader.exercise.plan import Plan, case_seed, default_seed, draw
from grader.exercise.planted import read
from grader.grading import Job, grade
from grader.judge.bench import Bench
from grader.judge.compare import tensor_of
from grader.judge.oracle_prefetch import OraclePrefetch
from grader.judge.truth import Expected, Truth, slots_for
from grader.protocol.answers import Loaded
from grader.protocol.requests import Recipe
from grader.record.checks import CheckResult
from grader.record.statuses import UNJUDGED
from grader.sandbox.outcome import Finished
from grader.sandbox.pair import paired
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.server import ForkServer
from grader.sandbox.session import Session
from grader.soundness.claims import claim_of

FIXED_INPUTS = 5
# Tensors of so many cases are kept for the next file.
_KNOWN_CASES = 256
# Whether a kernel compiles for any GPU is part of its grade, however busy this machine is.
_COMPILE_PATIENCE_S = 120.0


@dataclass(frozen=True)
class Wanted:
    """The size of a measurement, for every exercise.

    How many mutants, drawn with a seed, and how many seeds for honest gradings and for gradings of planted mistakes.
    """

    mutants: int
    seeds: int
    planted: int = 0
    draw_seed: int = 0
    jobs: int = 1


@dataclass(frozen=True, eq=False)
class _Run:
    """One exercise, where its files are graded, and what is known of them."""

    entry: Entry
    server: ForkServer
    wanted: Wanted
    journal: Journal
    truth: Truth

    @property
    def gpu(self) -> bool:
        """Whether a GPU judges."""
        return self.server.mode == "gpu"


class _FailedError(Exception):
    """A check that failed: nothing behind it needs to be judged."""

    def __init__(self, result: CheckResult) -> None:
        super().__init__(result.id)
        self.result = result


def measured(entry: Entry, server: ForkServer, wanted: Wanted, journal: Journal) -> Iterator[Result]:
    """Yield every result of an exercise as it comes.

    Mutants come first, then the solution and its honest variants, then planted mistakes.
    """
    truth = Truth.of(entry, keep=_KNOWN_CASES)
    run = _Run(entry, server, wanted, journal, truth)
    yield from _of_mutants(run)
    honest = {path: entry.parts_in(path) for path in (entry.solution, *entry.honest)}
    yield from _of_files("honest", honest, wanted.seeds, run)
    yield from _of_files("planted", _planted(entry, gpu=run.gpu), wanted.planted, run)


def _planted(entry: Entry, *, gpu: bool) -> dict[Path, frozenset[str]]:
    """Return the planted mistakes that answers tell from the solution on this machine, each with its part."""
    judged = {
        check_id(part, check): frozenset({part.name})
        for part, check in entry.exercise.checks()
        if not check.rule.is_timed and _is_judged_here(part, gpu=gpu)
    }
    claimed = {one.path: claim_of(one).check for one in entry.wrong}
    return {path: judged[check] for path, check in claimed.items() if check in judged}


def drawn_mutants(
    entry: Entry, count: int, seed: int, *, gpu: bool = False
) -> tuple[tuple[Mutant, frozenset[str]], ...]:
    """Return mutants of the exercise's solution, each with the parts that can show its change on this machine."""
    source = entry.solution.read_text(encoding="utf-8")
    parts = [part.name for part in entry.exercise.parts if _is_judged_here(part, gpu=gpu)]
    found = mutants(source, parts)
    seen = {function: reached_from(source, function, parts) for function in {one.function for one in found}}
    drawn = sample([one for one in found if seen[one.function]], count, seed)
    return tuple((one, seen[one.function]) for one in drawn)


def _of_mutants(run: _Run) -> Iterator[Result]:
    entry, journal, wanted = run.entry, run.journal, run.wanted
    seed, gpu = default_seed(entry.id), run.gpu
    drawn = drawn_mutants(entry, wanted.mutants, wanted.draw_seed, gpu=gpu)
    # Hypothesis draws on one thread only.
    plans = {
        parts: draw(entry.exercise, seed, Abilities(gpu=gpu, lacks=()), parts=parts)
        for parts in {parts for _, parts in drawn}
    }
    exercise_hash = entry.sha256()

    def result(one: tuple[Mutant, frozenset[str]]) -> Result:
        mutant, parts = one
        key = key_of("mutant", run.server.mode, exercise_hash, mutant.text, seed)
        if key in journal.known:
            return journal.known[key]
        found = _judged(mutant, plans[parts], run)
        return replace(found, key=key, parts=tuple(sorted(parts)), seed=seed, where=run.server.mode)

    with ThreadPoolExecutor(wanted.jobs) as pool:
        for found in pool.map(result, drawn):
            yield _kept(found, journal)


def _of_files(kind: Kind, files: Mapping[Path, frozenset[str]], seeds: int, run: _Run) -> Iterator[Result]:
    """Yield the grades of whole files, of the parts beside each, with so many plans."""
    entry, journal, where = run.entry, run.journal, run.server.mode
    trials = [(path, default_seed(entry.id) + i) for i, path in product(range(seeds), files)]
    plans = {
        (path, seed): draw(entry.exercise, seed, Abilities(gpu=run.gpu, lacks=()), parts=files[path])
        for path, seed in trials
    }
    exercise_hash = entry.sha256()

    def result(trial: tuple[Path, int]) -> Result:
        path, seed = trial
        given, plan = read(path), plans[trial]
        text = given.text
        key = key_of(kind, where, exercise_hash, text, seed)
        if key in journal.known:
            return journal.known[key]
        parts = tuple(sorted(files[path]))
        graded = _graded(text, plan, run)
        found = replace(graded, kind=kind, key=key, file=path.name, seed=seed, parts=parts, where=where)
        if kind == "honest":
            return found
        fixed = _fixed_shape(text, plan, run)
        return replace(found, claim=claim_of(given).check, fixed=fixed if isinstance(fixed, bool) else None)

    with ThreadPoolExecutor(run.wanted.jobs) as pool:
        for found in pool.map(result, trials):
            yield _kept(found, journal)


def _kept(found: Result, journal: Journal) -> Result:
    if found.key not in journal.known:
        journal.add(found)
    return found


def _judged(mutant: Mutant, plan: Plan, run: _Run) -> Result:
    """Return the results of both protocols for a mutant."""
    fixed = _fixed_shape(mutant.text, plan, run)
    if isinstance(fixed, str):
        graded = Result("mutant", "", run.entry.id, "discarded", why=fixed)
    else:
        graded = _graded(mutant.text, plan, run)
    if graded.status == "pass" and not _is_run(mutant, plan, run):
        graded = replace(graded, status="not_run")
    return replace(
        graded,
        operator=mutant.operator,
        function=mutant.function,
        line=mutant.line,
        before=mutant.before,
        after=mutant.after,
        fixed=None if isinstance(fixed, str) else fixed,
    )


def _is_run(mutant: Mutant, plan: Plan, run: _Run) -> bool:
    """Whether any case of the plan comes to the line that a mutant changes."""
    trap = trapped(run.entry.solution.read_text(encoding="utf-8"), mutant.line)
    return _graded(trap, plan, run, compiled=False).status != "pass"


def _graded(text: str, plan: Plan, run: _Run, *, compiled: bool = True) -> Result:
    """Return the grade of a text, up to the first check that fails."""
    entry = run.entry
    job = Job(
        entry,
        f"{entry.name}.py",
        text,
        plan,
        "",
        "",
        shrink=False,
        timed=False,
        compiled=compiled,
        patience_s=_COMPILE_PATIENCE_S,
    )
    blamed: list[CheckResult] = []

    def hear(result: CheckResult) -> None:
        if result.status == "grader_error":
            blamed.append(result)
        elif is_failure(result):
            raise _FailedError(result)

    started = monotonic()
    failed: CheckResult | None
    try:
        grade(job, run.server, hear, truth=run.truth)
        failed = blamed[0] if blamed else None
    except _FailedError as stopped:
        failed = stopped.result
    seconds = round(monotonic() - started, 3)
    if failed is None:
        return Result("mutant", "", entry.id, "pass", seconds=seconds)
    status = "fewer_points" if failed.status == "pass" else failed.status
    return Result("mutant", "", entry.id, status, failed.id, failed.reason, seconds)


def is_failure(result: CheckResult) -> bool:
    """Whether a check costs points: it failed, or did not earn all that it can."""
    if result.status == "pass":
        return result.points < result.max_points
    return result.status not in UNJUDGED


def _fixed_shape(text: str, plan: Plan, run: _Run) -> bool | str | None:
    """Whether five inputs of one shape tell the text from the truth, in any part; why, where it does not even load."""
    entry, shapes = run.entry, _shapes(plan)
    spec = ProcessSpec.of(run.server, entry, text)
    with (
        Session(spec) as session,
        paired(spec, session) as pair,
        OraclePrefetch(run.truth) as prefetch,
    ):
        loaded = session.load()
        if not isinstance(loaded, Loaded):
            return f"does not load: {loaded}"[:300]
        for part, case in shapes:
            device = session.ready.device if session.ready else "cpu"
            bench = Bench(pair, run.truth, part, f"{entry.name}.py", device, "", prefetch)
            for i in range(FIXED_INPUTS):
                recipe = Recipe(part.name, dict(case), case_seed(plan.seed, f"fixed/{part.name}", i))
                if not _is_close(bench, recipe):
                    return True
    return False if shapes else None


def _shapes(plan: Plan) -> list[tuple[Part, Case]]:
    """Return every part with a truth, and the first named case of its first check, of normal values."""
    found: dict[str, tuple[Part, Case]] = {}
    for planned in plan.checks:
        if planned.check.rule.judges_values and planned.cases and planned.part.name not in found:
            case = planned.cases[0].case
            plain = case.changed(values="normal") if "values" in case else case
            found[planned.part.name] = (planned.part, plain)
    return list(found.values())


def _is_close(bench: Bench, recipe: Recipe) -> bool:
    expected = bench.truth.expect(bench.part, recipe)
    outcome = bench.ask(recipe, slots_for(expected))
    return isinstance(outcome, Finished) and all(
        raw is not None and close(tensor_of(raw, one), one) for raw, one in zip(outcome.outputs, expected, strict=True)
    )


def close(got: torch.Tensor, expected: Expected) -> bool:
    """Return the result of `torch.allclose` at the usual tolerances; NaN in the same places is right."""
    want = expected.value.to(expected.dtype)
    if not expected.dtype.is_floating_point:
        return torch.equal(got, want)
    allowed = 1e-4 if expected.dtype == torch.float32 else 1e-2
    return torch.allclose(got.double(), want.double(), rtol=allowed, atol=allowed, equal_nan=True)


def _is_judged_here(part: Part, *, gpu: bool) -> bool:
    """Whether this machine can judge a part."""
    return (gpu or part.on != "gpu") and all(importlib.util.find_spec(package.module) for package in part.needs)
