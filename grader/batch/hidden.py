"""A record without its seed: what students get while the seed of the official run is hidden.

The seed itself never reaches a submission. What a submission printed goes as well, for it is told the seeds of single
cases; what an exception of its own says stays.
"""

from __future__ import annotations

from dataclasses import replace

from grader.record import CheckResult, PrintedOutput, Record

HIDDEN = "hidden"


def without_seed(record: Record) -> Record:
    """The record with neither the seed nor what holds one: replay tokens, the command, printed text."""
    command, printed = f"grade {record.exercise.id}", PrintedOutput("", 0, record.printed.total_bytes)
    checks = tuple(map(_without_token, record.checks))
    return replace(record, seed=HIDDEN, command=command, checks=checks, printed=printed)


def _without_token(check: CheckResult) -> CheckResult:
    evidence = {name: text for name, text in check.evidence.items() if name != "seed"}
    example = replace(check.counterexample, replay="") if check.counterexample else None
    return replace(check, evidence=evidence, counterexample=example)
