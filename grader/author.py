"""The author's gate: proof that an exercise is sound.

The untouched stub is `not_implemented` throughout, the solution and the record kernels earn every point that can be
judged here, every planted mistake is caught by the check that it names, every honest variant passes, no trivial answer
(zeros, ones, the mean, a copy of an input, the next lower precision) passes a correctness check, the oracle is wide, a
seed gives the same inputs twice, and another seed gives others.

The solution meets every case. The honest variants of a part share them: together they meet each case once. So do the
record kernels, except on a GPU: only there they are other kernels than the solution's, and each meets every case.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from math import isnan
from pathlib import Path

import torch
from torch import Tensor

from grader import machine
from grader.diagnosis.kinds import known_kinds
from grader.errors import SpecError
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.exercise.model import Part, Regret, check_id
from grader.exercise.plan import Plan, PlannedCheck, draw, with_shared_inputs
from grader.exercise.planted import PlantedMistake
from grader.exercise.tensors import bytes_of, same_bytes
from grader.exercise.triton_version import lacking
from grader.grading import Job, grade, truth_of
from grader.judge.compare import compare
from grader.judge.rules.regret import counted_ratios, mean_regret
from grader.judge.truth import Expected, Truth
from grader.phrases import counted, listed
from grader.protocol.messages import Recipe
from grader.record import UNJUDGED, CheckResult, Record
from grader.sandbox.pair import decoys_of
from grader.sandbox.server import ForkServer
from grader.syntax import tree_of

# Number of cases whose tensors are stored for the next file: all of an exercise.
_KNOWN_CASES = 1024
_STATUS = "partly|fail|policy|crash|timeout|oom|compile_error|skipped_environment"
_CLAIM = re.compile(rf"(?P<check>\w+\.\w+) (?P<status>{_STATUS})(?:, on a GPU (?P<on_gpu>{_STATUS}))?: (?P<why>.+)")

_CAUSE = re.compile(r"^Cause: (?P<kinds>\w+(?: or \w+)*)$", re.MULTILINE)


@dataclass(frozen=True)
class GateLine:
    """One finding of the gate.

    subject: what was tried. outcome: in words. holds: whether it is as it must be (None: not judged here).
    """

    subject: str
    holds: bool | None
    outcome: str


@dataclass(frozen=True)
class Margin:
    """The room that a part's tolerance leaves, in units of the allowed error.

    worst_honest: the largest error of an honest file. cheapest_cheat: the smallest error of a caught mistake; None
    where no mistake was measured. With the files.
    """

    part: str
    worst_honest: float
    honest_file: str
    cheapest_cheat: float | None
    cheat_file: str


@dataclass
class Gate:
    """The findings and margins of one run of the gate."""

    findings: list[GateLine] = field(default_factory=list)
    margins: list[Margin] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Nothing that could be judged here came out wrong."""
        return all(finding.holds is not False for finding in self.findings)


@dataclass(frozen=True)
class Claim:
    """The verdict that a planted mistake must get, as its docstring says.

    The first line names check and status; a line "Cause: <kind>" names the cause, or "<kind> or <kind>" for a cause
    with two names. The status "partly" means a pass with some of the points; it has no cause. on_gpu: the status on a
    GPU.
    """

    check: str
    status: str
    on_gpu: str
    why: str
    causes: tuple[str, ...] = ()


def claim_of(mistake: PlantedMistake) -> Claim:
    """Return the claim of a planted mistake. Raises SpecError."""
    first, _, rest = (ast.get_docstring(tree_of(mistake.text)) or "").partition("\n")
    match = _CLAIM.fullmatch(first)
    if match is None:
        raise SpecError(
            f"{mistake.path.name}: the text on top must begin '<part>.<check> <status>: <what is wrong>', got {first!r}"
        )
    label = _CAUSE.search(rest)
    causes = tuple(label["kinds"].split(" or ")) if label else ()
    return Claim(match["check"], match["status"], match["on_gpu"] or match["status"], match["why"], causes)


@dataclass(frozen=True)
class Share:
    """One variant's share of a check's cases: `turn` of `sharers`, from 0 on."""

    turn: int
    sharers: int

    def of(self, planned: PlannedCheck) -> PlannedCheck:
        """Return the check with every `sharers`-th case, from the turn on; with one case where it has no more."""
        step = min(self.sharers, max(1, len(planned.cases)))
        return replace(planned, cases=planned.cases[self.turn % step :: step])


def shares(parts_of: Sequence[frozenset[str]]) -> list[dict[str, Share]]:
    """Return each variant's shares by part, from the parts that each variant defines."""
    sharers = Counter(chain.from_iterable(parts_of))
    turns: Counter[str] = Counter()
    found = []
    for parts in parts_of:
        found.append({part: Share(turns[part], sharers[part]) for part in parts})
        turns.update(parts)
    return found


@dataclass(frozen=True)
class _Trial:
    """A file for the gate to grade, with its text.

    parts: those to judge (None: all). claim: of a planted mistake. alone: the only check to judge; "" for all. shares:
    an honest variant's share of the cases of each part; empty for all of them.
    """

    path: Path
    text: str
    parts: frozenset[str] | None
    claim: Claim | None = None
    timed: bool = False
    alone: str = ""
    shares: Mapping[str, Share] = field(default_factory=dict)

    def of(self, plan: Plan, every_case: bool) -> Plan:
        """Return what the file must show of the whole plan."""
        checks = [planned for planned in plan.checks if self._judges(planned)]
        if self.shares and not every_case:
            checks = [self.shares[planned.part.name].of(planned) for planned in checks]
        return replace(plan, checks=tuple(checks))

    def _judges(self, planned: PlannedCheck) -> bool:
        return (self.parts is None or planned.part.name in self.parts) and self.alone in ("", planned.id)


def _trials(entry: Entry) -> list[_Trial]:
    """Return every file of the exercise, in the order of the gate."""
    trials = [_Trial(entry.pristine_stub, _text(entry.pristine_stub), None)]
    # An honest variant must be right, not fast; so must the bases of patches.
    trials += [_Trial(entry.solution, _text(entry.solution), entry.parts_in(entry.solution), timed=True)]
    variants = [path for path in (*entry.fast, *entry.honest, *entry.bases) if not lacking(_text(path))]
    defined = [entry.parts_in(path) for path in variants]
    trials += [
        _Trial(path, _text(path), parts, timed=path in entry.fast, shares=share)
        for path, parts, share in zip(variants, defined, shares(defined), strict=True)
    ]
    for mistake in entry.wrong:
        claim = claim_of(mistake)
        named, _, check = claim.check.partition(".")
        timed = _is_speed(entry, named, check)
        alone = "" if timed else claim.check
        # The check that a mistake names must catch it by itself; speed is only timed after right answers.
        trials.append(_Trial(mistake.path, mistake.text, frozenset({named}), claim, timed=timed, alone=alone))
    return trials


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def run_gate(
    entry: Entry,
    server: ForkServer,
    seed: int,
    on_finding: Callable[[GateLine], None],
    jobs: int = 1,
    interpreter: ForkServer | None = None,
    measured: bool = False,
) -> Gate:
    """Run the whole gate, `jobs` files at a time.

    on_finding: called with every finding, in the order of the gate. interpreter: judges mistakes that pass on a GPU
    once more, because only the interpreter sees every access. measured: every file runs on every case, for the margins;
    otherwise a mistake's first failing case is enough, and honest variants share the cases.
    """
    gate = Gate()
    honest: dict[str, tuple[float, str]] = {}
    cheats: dict[str, tuple[float, str]] = {}

    def note(finding: GateLine) -> None:
        gate.findings.append(finding)
        on_finding(finding)

    trials = _trials(entry)
    # Every file meets the same inputs, so that each expected value is computed once.
    truth = truth_of(entry, on_gpu=server.mode == "gpu", keep=_KNOWN_CASES)

    def planned(on: ForkServer) -> Plan:
        lacks = machine.lacked_values(gpu=on.mode == "gpu")
        return with_shared_inputs(draw(entry.exercise, seed, gpu=on.mode == "gpu", lacks=lacks))

    # Hypothesis draws on one thread only.
    drawn = {one.mode: planned(one) for one in (server, interpreter or server)}

    def graded(trial: _Trial, on: ForkServer = server) -> Record:
        plan = trial.of(drawn[on.mode], every_case=measured or (trial.timed and on.mode == "gpu"))
        job = Job(
            entry,
            str(trial.path),
            trial.text,
            plan,
            f"grade {entry.id} --submission {trial.path}",
            "",
            shrink=False,
            timed=trial.timed,
            compiled=trial.path == entry.solution,
            patience_s=60.0,
            # A claim names a check and a status. Causes are measured elsewhere (benchmarks.causes).
            diagnosed=False,
            first_failure=trial.claim is not None and not measured,
        )
        return grade(job, on, truth=truth)

    def judged(trial: _Trial, record: Record) -> Iterator[GateLine]:
        for finding in _findings(trial, record, entry):
            if finding.holds is False and trial.claim and interpreter and _passes(trial.claim, record):
                again = planted_finding(trial.path, trial.claim, graded(trial, interpreter))
                yield replace(again, outcome=f"{again.outcome} in the interpreter, pass on this GPU")
            else:
                yield finding

    whole = drawn[server.mode]
    pool = ThreadPoolExecutor(jobs)
    try:
        # First: after the last file, it would leave all cores but one idle.
        proved = pool.submit(_without_submission, whole, truth)
        for trial, record in zip(trials, pool.map(graded, trials), strict=True):
            for finding in judged(trial, record):
                note(finding)
            for result in record.checks:
                if trial.claim is None:
                    _keep(honest, result, trial.path.name, max)
                elif measured and result.id == trial.claim.check and _error(result) > 1:
                    # One that is wrong in a single configuration of an autotuner is right in all cases by themselves.
                    _keep(cheats, result, trial.path.name, min)
        found = proved.result()
    finally:
        pool.shutdown(cancel_futures=True)
    for path in (*entry.fast, *entry.honest):
        if why := lacking(_text(path)):
            note(GateLine(_named(path), None, f"not judged: {why}"))
    # Last, and alone: it computes on several threads at once.
    for finding in (*found, *repeatable_inputs(whole, truth)):
        note(finding)
    for part in entry.exercise.parts:
        gate.margins.append(Margin(part.name, *honest.get(part.name, (0.0, "-")), *cheats.get(part.name, (None, "-"))))
    return gate


def _without_submission(plan: Plan, truth: Truth) -> list[GateLine]:
    """Return what the plan, the inputs and the oracle show by themselves; on one core, for the others have files."""
    torch.set_num_threads(1)
    looks = (trivial_answers, constant_choices, wide_oracles, seeded_inputs, steady_forms)
    return [finding for look in looks for finding in look(plan, truth)]


def _findings(trial: _Trial, record: Record, entry: Entry) -> Iterator[GateLine]:
    """Yield the findings about a file from its record."""
    if trial.claim:
        yield planted_finding(trial.path, trial.claim, record)
        if unlabelled := label_fault(trial.claim, entry):
            yield GateLine(f"{_named(trial.path)}, cause", False, unlabelled)
    elif trial.parts is None:
        yield _stub(record)
    else:
        yield honest_finding(trial.path, trial.parts, record)
    if trial.path == entry.solution:
        yield _compiles(record)


def _is_speed(entry: Entry, part: str, check: str) -> bool:
    found = entry.exercise.part(part)
    rules = {one.name: one.rule for one in found.checks} if found else {}
    return check in rules and rules[check].is_timed


def _keep(
    best: dict[str, tuple[float, str]], result: CheckResult, file: str, choose: Callable[[float, float], float]
) -> None:
    """Store the part's largest or smallest error. Results without a finite error do not count."""
    error = _error(result)
    if not error:
        return
    if result.part not in best or choose(error, best[result.part][0]) != best[result.part][0]:
        best[result.part] = (error, file)


def _error(result: CheckResult) -> float:
    """Return the largest error of a check's cases in units of the allowed one; 0 where none is finite."""
    error = result.metrics.get("worst_error_over_allowed", 0.0)
    return error if isinstance(error, float) else 0.0


def _stub(record: Record) -> GateLine:
    others = [result for result in record.checks if result.status not in ("not_implemented", *UNJUDGED)]
    outcome = _sentence(others) if others else "every part not_implemented"
    return GateLine("stub", not others, outcome)


def honest_finding(path: Path, parts: frozenset[str], record: Record) -> GateLine:
    """Return whether a right file passes all checks judged here; None where none is judged."""
    judged = [result for result in record.checks if result.status not in UNJUDGED or result.status == "grader_error"]
    failed = [result for result in judged if result.status != "pass" or result.points < result.max_points]
    lacking = next((result.reason for result in record.checks if result.status == "skipped_environment"), "")
    if not judged and lacking:
        return GateLine(_named(path), None, f"nothing judged here: {lacking}")
    passed = f"passes {counted(len(judged), 'check')} of {', '.join(sorted(parts)) or 'no part'}"
    outcome = _sentence(failed) if failed else passed
    return GateLine(_named(path), bool(judged) and not failed, outcome)


def _compiles(record: Record) -> GateLine:
    """Find whether every kernel of the solution compiles for some GPU; not judged if time ran out."""
    kernels = [kernel for part in record.parts for kernel in part.kernels]
    good = {kernel.kernel for kernel in kernels if kernel.occupancy is not None}
    bad = {kernel.kernel for kernel in kernels} - good
    missing = {f"{part.name}: {why}" for part in record.parts for why in part.uncompiled.values()}
    if bad:
        return GateLine("solution, compiled", False, f"for no GPU: {', '.join(sorted(bad))}")
    targets = sorted({kernel.target for kernel in kernels})
    outcome = f"{counted(len(good), 'kernel')} for {', '.join(targets) or 'no GPU'}"
    return GateLine("solution, compiled", None if missing else True, "; ".join([outcome, *sorted(missing)]))


def planted_finding(path: Path, claim: Claim, record: Record) -> GateLine:
    """Return whether a planted mistake got the verdict that it claims."""
    named = next((result for result in record.checks if result.id == claim.check), None)
    if named is None:
        return GateLine(_named(path), False, f"names {claim.check}, which is no check")
    if named.status in UNJUDGED:
        return GateLine(_named(path), None, f"{claim.check}: {named.reason}")
    got = "partly" if named.passed_in_part else named.status
    wanted = claim.on_gpu if record.env.mode == "gpu" else claim.status
    holds = got == wanted
    outcome = f"{claim.check}: {got}"
    if not holds:
        outcome += f", must be {wanted}{f': {named.reason}' if named.reason else ''}"
    return GateLine(_named(path), holds, outcome)


def _passes(claim: Claim, record: Record) -> bool:
    named = (result for result in record.checks if result.id == claim.check)
    return any(result.status == "pass" and not result.passed_in_part for result in named)


def label_fault(claim: Claim, entry: Entry) -> str:
    """Return what is wrong with a mistake's label; "" if nothing is."""
    if claim.status == "partly":
        return "a mistake that earns some points has no cause to name" if claim.causes else ""
    if not claim.causes:
        return "the text on top must have a line 'Cause: <kind>'"
    known = known_kinds(entry.exercise)
    unknown = [kind for kind in claim.causes if kind not in known]
    return f"a cause must be a known kind, got {', '.join(unknown)}" if unknown else ""


def _named(path: Path) -> str:
    return path.stem if path.parent.name not in ("wrong", "honest") else f"{path.parent.name}/{path.stem}"


def _sentence(results: Sequence[CheckResult]) -> str:
    said = [
        f"{result.id}: {result.status}: {result.reason or f'{result.points:g} of {result.max_points:g} points'}"
        for result in results
    ]
    return listed(said, 3, "; ") or "everything passed"


# -- trivial answers -------------------------------------------------------------------------------------------------

_LOWER = {torch.float32: torch.bfloat16, torch.float16: torch.float8_e4m3fn, torch.bfloat16: torch.float8_e4m3fn}


def trivial_answers(plan: Plan, truth: Truth) -> Iterator[GateLine]:
    """Yield for every check on values whether an answer without computation, or too coarse, passes all cases."""
    for planned in plan.checks:
        if planned.check.rule.judges_values:
            passing = _passing_models(planned, truth)
            outcome = f"passed by {', '.join(sorted(passing))}" if passing else "no trivial answer passes"
            yield GateLine(check_id(planned.part, planned.check), not passing, outcome)


def _passing_models(planned: PlannedCheck, truth: Truth) -> set[str]:
    surviving: set[str] | None = None
    for one in planned.cases:
        recipe = one.recipe(planned.part)
        expected = truth.expect(planned.part, recipe)
        models = _models(expected, truth.inputs(recipe), planned.part.arguments)
        asked = models.keys() if surviving is None else surviving & models.keys()
        surviving = {name for name in asked if _all_agree(models[name], expected)}
        if not surviving:
            break
    return surviving or set()


def _all_agree(outputs: Sequence[Tensor], expected: Sequence[Expected]) -> bool:
    return all(compare(got, output).agrees for got, output in zip(outputs, expected, strict=True))


def _models(
    expected: Sequence[Expected], inputs: Sequence[object], names: Sequence[str]
) -> dict[str, tuple[Tensor, ...]]:
    """Return outputs that need no computation, by name."""
    models = {
        "zeros": tuple(torch.zeros(one.value.shape, dtype=one.dtype) for one in expected),
        "ones": tuple(torch.ones(one.value.shape, dtype=one.dtype) for one in expected),
    }
    if all(one.value.numel() > 1 for one in expected):
        models["the mean"] = tuple(one.value.double().mean().expand(one.value.shape).to(one.dtype) for one in expected)
    if all(one.dtype in _LOWER for one in expected):
        models["the next lower precision"] = tuple(
            one.value.float().to(_LOWER[one.dtype]).float().to(one.dtype) for one in expected
        )
    for name, value in zip(names, inputs, strict=True):
        if isinstance(value, Tensor) and all(value.shape == one.value.shape for one in expected):
            models[f"a copy of {name}"] = tuple(value.to(one.dtype) for one in expected)
    return models


# -- oracles ---------------------------------------------------------------------------------------------------------


def wide_oracles(plan: Plan, truth: Truth) -> Iterator[GateLine]:
    """Yield for every part that computes whether its oracle gives float64 (or whole numbers) and an allowed error."""
    for part, checks in _cases_by_part(plan):
        if part.chooses:
            continue
        faults = (
            f"{fault}: {Case(recipe.case).words()}"
            for recipe in chain.from_iterable(checks)
            for output in truth.expect(part, recipe)
            if (fault := _oracle_fault(output))
        )
        fault = next(faults, "")
        yield GateLine(f"oracle of {part.name}", not fault, fault or "wide, and an error is allowed everywhere")


def _oracle_fault(output: Expected) -> str:
    """Return what is wrong with an expected output as such; "" if nothing is."""
    value, allowed = output.value, output.allowed
    if output.dtype.is_floating_point and value.dtype != torch.float64:
        return f"{output.name} must be computed in float64, got {str(value.dtype).removeprefix('torch.')}"
    if not bool((allowed >= 0).all()):
        return f"the error allowed in {output.name} must be 0 or more, got {float(allowed.min()):g}"
    return ""


def _cases_by_part(plan: Plan) -> Iterator[tuple[Part, list[list[Recipe]]]]:
    """Yield every part with the planned cases of each of its checks that has some."""
    for part, several in groupby(plan.checks, key=lambda planned: planned.part):
        checks = [[one.recipe(part) for one in planned.cases] for planned in several]
        if cased := [recipes for recipes in checks if recipes]:
            yield part, cased


# -- inputs ----------------------------------------------------------------------------------------------------------


def seeded_inputs(plan: Plan, truth: Truth) -> Iterator[GateLine]:
    """Yield for every part whether in each check some case has other inputs where it has another seed.

    Some cases have not: a constant has one value, and a single thing one order.
    """
    for part, checks in _cases_by_part(plan):
        fixed = next((recipes for recipes in checks if not any(_depends_on_seed(one, truth) for one in recipes)), None)
        outcome = f"every seed gives the same inputs: {Case(fixed[0].case).words()}" if fixed else "others for others"
        yield GateLine(f"seeds of {part.name}", fixed is None, outcome)


def _depends_on_seed(recipe: Recipe, truth: Truth) -> bool:
    here, there = truth.inputs(recipe), truth.inputs(replace(recipe, seed=recipe.seed + 1))
    return not all(_same(*pair) for pair in zip(here, there, strict=True))


def steady_forms(plan: Plan, truth: Truth) -> Iterator[GateLine]:
    """Yield for every part whether its tensors have the same shapes, strides and places in memory for all numbers.

    A trace holds those of the decoys that it was recorded with: plain numbers of another seed.
    """
    for part, checks in _cases_by_part(plan):
        other = next((one for one in chain.from_iterable(checks) if _form_depends_on_numbers(one, truth)), None)
        outcome = (
            f"a seed, or the family of values, decides where a tensor lies: {Case(other.case).words()}"
            if other
            else "the same for every seed"
        )
        yield GateLine(f"forms of {part.name}", other is None, outcome)


def _form_depends_on_numbers(recipe: Recipe, truth: Truth) -> bool:
    recipes = recipe, replace(recipe, seed=recipe.seed + 1), decoys_of(recipe)
    return len({tuple(map(_form, truth.inputs(one))) for one in recipes}) > 1


def _form(value: object) -> object:
    return (value.shape, value.stride(), value.storage_offset()) if isinstance(value, Tensor) else None


def repeatable_inputs(plan: Plan, truth: Truth) -> Iterator[GateLine]:
    """Yield for every part whether a seed gives the same bits again.

    The judge and the submission's process each build the inputs.
    """
    for part, checks in _cases_by_part(plan):
        other = next((recipe for recipe in chain.from_iterable(checks) if not _repeats(recipe, truth)), None)
        outcome = f"a seed gives other inputs a second time: {Case(other.case).words()}" if other else "repeatable"
        yield GateLine(f"inputs of {part.name}", other is None, outcome)


def _repeats(recipe: Recipe, truth: Truth) -> bool:
    """Return whether one thread builds the same bits as several: sums may depend on the number of threads."""
    usual = torch.get_num_threads()
    try:
        torch.set_num_threads(max(usual, 2))
        first = truth.inputs(recipe)
        torch.set_num_threads(1)
        second = truth.inputs(recipe)
    finally:
        torch.set_num_threads(usual)
    return len(first) == len(second) and all(_same(*pair) for pair in zip(first, second, strict=True))


def _same(one: object, other: object) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        alike = (one.shape, one.stride(), one.storage_offset()) == (other.shape, other.stride(), other.storage_offset())
        return alike and same_bytes(bytes_of(one), bytes_of(other))
    return one == other


# -- constant choices ------------------------------------------------------------------------------------------------

# The largest share of points of a check on choices that a constant choice may earn.
_MOST_FOR_NOTHING = 0.5


def constant_choices(plan: Plan, truth: Truth) -> Iterator[GateLine]:
    """Yield for every check on choices what the best constant choice earns."""
    for planned in plan.checks:
        rule = planned.check.rule
        if not isinstance(rule, Regret):
            continue
        if not truth.has_measurements:
            yield GateLine(planned.id, None, "nothing has been measured that choices could be judged by")
        elif ratios := _ratios(planned, truth):
            name, regret = min(((name, mean_regret(found)) for name, found in ratios.items()), key=lambda one: one[1])
            earned = rule.share(regret)
            outcome = f"the best constant choice, {name}, earns {earned:.0%} of the points (regret {regret:.0%})"
            yield GateLine(planned.id, earned < _MOST_FOR_NOTHING, outcome)


def _ratios(planned: PlannedCheck, truth: Truth) -> dict[str, list[float]]:
    """Return the ratios in each measured case, of every thing that can be chosen in all of them."""
    found: dict[str, list[float]] = {}
    part, measured = planned.part, 0
    for one in planned.cases:
        recipe = one.recipe(part)
        offers = truth.offers(part, recipe)
        if all(isnan(offer.ratio) for offer in offers):
            continue
        measured += 1
        for offer, ratio in zip(offers, counted_ratios(offers), strict=True):
            found.setdefault(str(offer.thing), []).append(ratio)
    return {name: ratios for name, ratios in found.items() if len(ratios) == measured}
