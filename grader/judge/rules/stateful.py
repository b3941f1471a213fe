"""Judge calls that build on each other: each finds the memory that the previous one left."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

from grader.exercise.model import Part
from grader.exercise.plan import PlannedCase
from grader.exercise.rules import Stateful
from grader.judge.bench import Bench
from grader.judge.clue import Clue
from grader.judge.failure import Failure
from grader.judge.ruling import Ruling
from grader.judge.trial import CallRequest
from grader.protocol.answers import Loaded
from grader.record.json_numbers import Number, number

RULE = Stateful


class _End(NamedTuple):
    """The first failing call of a case: its failure, step and part."""

    failure: Failure
    step: int
    part: Part


def decide(bench: Bench, cases: Sequence[PlannedCase], rule: Stateful) -> Ruling:
    """Compare every call of every step with the oracle.

    Nothing is decided if the steps call another part that is not written yet.
    """
    loaded = bench.pair.session.load()
    there = loaded.functions if isinstance(loaded, Loaded) else [part.name for part in rule.before]
    absent = [part.name for part in rule.before if part.name not in there]
    if absent:
        return Ruling(None, undecided=_waits_for(absent[0]))
    worst = 0.0
    for run, one in enumerate(cases, 1):
        end, error = _make_calls(bench, one, rule)
        worst = max(worst, error)
        metrics: dict[str, Number] = {"cases": run, "worst_error_over_allowed": number(worst)}
        if end is None:
            continue
        if end.failure.status == "not_implemented" and end.part is not bench.part:
            return Ruling(None, one, undecided=_waits_for(end.part.name))
        return Ruling(_failure_with_step(end, int(one.case[rule.steps])), one, metrics=metrics)
    return Ruling(None, metrics=metrics)


def _waits_for(name: str) -> str:
    return f"its steps call {name}, which is not written yet"


def _make_calls(bench: Bench, one: PlannedCase, rule: Stateful) -> tuple[_End | None, float]:
    """Make the calls of one case until one is wrong.

    Returns the end, or None, and the largest error in units of the allowed one.
    """
    worst = 0.0
    calls = [(step, part) for step in range(int(one.case[rule.steps])) for part in (*rule.before, bench.part)]
    requests = [
        CallRequest(
            part,
            one.case.changed(step=step),
            one.seed,
            storage="same" if place else "new",
            carries=rule.carries if place else (),
        )
        for place, (step, part) in enumerate(calls)
    ]
    with closing(bench.tries(requests, chained=True)) as trials:
        for (step, part), trial in zip(calls, trials, strict=False):
            worst = max(worst, trial.worst)
            if trial.failure:
                return _End(trial.failure, step, part), worst
    return None, worst


def _failure_with_step(end: _End, steps: int) -> Failure:
    """Return the failure with its step, and with the number of steps before it that were right."""
    if end.failure.status == "not_implemented":
        return end.failure
    cause, step = end.failure.cause, end.step
    clues = end.failure.clues
    if step == 0:
        lead, when = "Wrong in the first step: ", f"In the first of {steps} steps {end.part.name} fails."
        advice = ""
    else:
        right = "step 0" if step == 1 else f"steps 0 to {step - 1}"
        lead, when = f"Right at first, wrong in step {step}: ", f"All was right in {right}; in step "
        when += f"{step} of {steps} {end.part.name} fails, after calls that left memory as they must."
        advice = "Which value is left from the step before: a length, an address, a result, a slot written too far?"
        # The inputs of each step alone would be an ordinary case.
        clues = (
            *clues,
            Clue(
                "remembered_input",
                0.75,
                f"Earlier steps were right and left memory as they must; in step {step} the same address holds more.",
            ),
        )
    help_text = " ".join(filter(None, (advice, cause.help)))
    extended = replace(cause, title=f"{lead}{cause.title}", rationale=f"{when} {cause.rationale}", help=help_text)
    return replace(end.failure, cause=extended, clues=clues, lead=lead, advice=advice)
