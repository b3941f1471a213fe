"""A record without its seed: what students get while the seed of the official run is hidden."""

from __future__ import annotations

from dataclasses import replace

from grader.record import CheckResult, Record

HIDDEN = "hidden"


def without_seed(record: Record) -> Record:
    """The record with neither the seed nor what holds one: replay tokens, and the command."""
    command = f"grade {record.exercise.id}"
    return replace(record, seed=HIDDEN, command=command, checks=tuple(map(_without_token, record.checks)))


def _without_token(check: CheckResult) -> CheckResult:
    if check.counterexample is None:
        return check
    return replace(check, counterexample=replace(check.counterexample, replay=""))
