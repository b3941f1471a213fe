"""Judge how many kernels a call launches."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from grader.exercise.plan import PlannedCase
from grader.exercise.rules import Launches
from grader.judge.bench import Bench
from grader.judge.configurations import other_configurations
from grader.judge.failure import Failure
from grader.judge.ruling import Ruling
from grader.judge.unplanned_cases import find_unplanned_cases
from grader.judge.wrong_replay import explain_wrong_replay
from grader.phrases import listed
from grader.protocol.observations import LaunchInfo
from grader.record.causes import Cause
from grader.record.json_numbers import Number
from grader.text import clean

RULE = Launches

# How many kernels a failure names.
_MOST_NAMED = 6


def decide(bench: Bench, cases: Sequence[PlannedCase], rule: Launches) -> Ruling:
    """Pass when each call that gives the right answer has at least one launch, and at most `rule.most`.

    Calls of other checks in the space of the rule's cases count too: those with too many launches are repeated here.
    """
    most = rule.most
    cases = [
        *cases,
        *find_unplanned_cases(bench.findings.evidence, cases, rule.cases.space, lambda seen: seen.launches > most),
    ]
    metrics: dict[str, Number] = {"cases": len(cases)}
    for one in cases:
        trial = bench.try_case(one.case, one.seed)
        if failure := trial.failure and explain_wrong_replay(bench, one, trial, trial.failure):
            return Ruling(failure, one, metrics=metrics)
        if trial.unrecordable:
            return Ruling(None, one, undecided=f"the launches could not be recorded: {trial.unrecordable[0]}")
        others = filter(bench.refused.fits, other_configurations(bench, one, trial))
        tried = chain([trial], others)
        enough = any(1 <= len(each.launches) <= most for each in tried)
        if not enough:
            return Ruling(_wrong_number(one, trial.launches, most), one, metrics=metrics)
    return Ruling(None, metrics=metrics)


def _wrong_number(one: PlannedCase, seen: Sequence[LaunchInfo], most: int) -> Failure:
    count = len(seen)
    title = "Too many launches" if count else "No kernel was launched"
    allowed = "one launch" if most == 1 else f"at most {most} launches"
    rationale = f"For {one.case.words()} the call must use {allowed}, got {count}{_kernel_names(seen)}."
    help_text = (
        "Each launch reads its inputs from memory again: keep the values for the next step in registers."
        if count
        else ""
    )
    return Failure("fail", Cause("launches", title, rationale, help_text, allowed, str(count)))


def _kernel_names(seen: Sequence[LaunchInfo]) -> str:
    names = listed([clean(launch.kernel, 80) for launch in seen], _MOST_NAMED)
    return f" ({names})" if names else ""
