"""Decide checks by rules: one module for each rule, found by a scan of this folder.

A module declares `RULE`, the class of the rule, and one function that gives a Ruling. `decide` has calls made: it takes
the part's bench, the planned cases and the rule. `decide_compiled` looks at compiled kernels: it takes the compiler's
outcomes, the rule, the part and the truth. Rules on speed are not here: grader.speed judges them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from grader.compile.outcome_cache import CompileOutcome
from grader.exercise.model import Part
from grader.exercise.plan import PlannedCase, PlannedCheck
from grader.exercise.rules import Rule
from grader.judge.bench import Bench
from grader.judge.failure import Failure
from grader.judge.kernel_policy import by_evidence, why_unrecorded
from grader.judge.ruling import Ruling
from grader.judge.trial import NotRunHere
from grader.judge.truth import Truth

# A rule's module takes its own kind of rule.
_Decide = Callable[[Bench, Sequence[PlannedCase], Any], Ruling]
_DecideCompiled = Callable[[Sequence[CompileOutcome], Any, Part, Truth], Ruling]


def _table(function: str) -> Mapping[type[Rule], Any]:
    """Return a function by its name for every rule, from the modules of this folder that define it."""
    names = sorted(found.name for found in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return MappingProxyType({module.RULE: getattr(module, function) for module in modules if hasattr(module, function)})


_DECIDE: Mapping[type[Rule], _Decide] = _table("decide")
_DECIDE_COMPILED: Mapping[type[Rule], _DecideCompiled] = _table("decide_compiled")


def decide(bench: Bench, planned: PlannedCheck) -> Ruling:
    """Run the check's rule on its planned cases.

    Right values earn nothing if something besides kernels computed them.
    """
    before = len(bench.findings.evidence)
    try:
        ruling = _DECIDE[type(planned.check.rule)](bench, planned.cases, planned.check.rule)
    except NotRunHere as call:
        return Ruling(None, unfit=f"a GPU has to run this: {call}")
    if ruling.failure is None and bench.part.is_replayed and not planned.check.rule.demands_kernels:
        allowed = [name for check in bench.part.checks for name in check.rule.allowed_operators]
        seen = bench.findings.evidence[before:]
        if failure := by_evidence(seen, allowed, bench.part.bounds):
            return replace(ruling, failure=_note_right_values(failure), failing=planned.cases[0])
        if why := next((why_unrecorded(one) for one in seen if not one.was_replayed), ""):
            return replace(ruling, undecided=f"the values are right, but it is unknown what computes them: {why}")
    return ruling


def decide_compiled(outcomes: Sequence[CompileOutcome], planned: PlannedCheck, truth: Truth) -> Ruling:
    """Decide a check by the outcomes of a compiler for the targets of its rule, and by the contract of its part."""
    return _DECIDE_COMPILED[type(planned.check.rule)](outcomes, planned.check.rule, planned.part, truth)


def _note_right_values(failure: Failure) -> Failure:
    """Return the failure with a note that the values are right."""
    cause = failure.cause
    return replace(failure, cause=replace(cause, rationale=f"The values are right, but: {cause.rationale}"))


def ruling_of(bench: Bench, planned: PlannedCheck, one: PlannedCase) -> Ruling:
    """Run the check's rule on a single case."""
    return decide(bench, replace(planned, cases=(one,)))


def failure_of(bench: Bench, planned: PlannedCheck, one: PlannedCase) -> Failure | None:
    """Return the failure of the check's rule on a single case, or None."""
    return ruling_of(bench, planned, one).failure


def shrinkable(planned: PlannedCheck, failure: Failure) -> bool:
    """Return whether smaller cases should be tried: not for a timeout, nor for a rule that is not shrunk."""
    return planned.check.rule.is_shrunk and failure.status in ("fail", "crash", "compile_error")
