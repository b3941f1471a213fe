"""Grade the checks that failed last time first, but keep the record in the exercise's order."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from grader.exercise.model import Exercise, check_id
from grader.record.record import Record

if TYPE_CHECKING:
    # It imports Hypothesis, which would delay the first screen.
    from grader.exercise.plan import Plan, PlannedCheck


def first(plan: Plan, failed: Collection[str]) -> Plan:
    """Return the plan with failed parts, and failed checks inside each part, in front."""
    parts: dict[str, list[PlannedCheck]] = {}
    for check in plan.checks:
        parts.setdefault(check.part.name, []).append(check)
    groups = [sorted(group, key=lambda check: check.id not in failed) for group in parts.values()]
    groups.sort(key=lambda group: group[0].id not in failed)
    return replace(plan, checks=tuple(check for group in groups for check in group))


def in_order(record: Record, exercise: Exercise) -> Record:
    """Return the record with parts and checks in the exercise's order."""
    parts = {part.name: i for i, part in enumerate(exercise.parts)}
    checks = {check_id(part, check): i for i, (part, check) in enumerate(exercise.checks())}
    return replace(
        record,
        parts=tuple(sorted(record.parts, key=lambda part: parts.get(part.name, len(parts)))),
        checks=tuple(sorted(record.checks, key=lambda check: checks.get(check.id, len(checks)))),
    )
