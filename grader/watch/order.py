"""What failed the last time is judged first; the record is in the exercise's order all the same."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from grader.exercise.model import Exercise, check_id
from grader.record import Record

if TYPE_CHECKING:
    # It imports Hypothesis, which the screen need not wait for.
    from grader.exercise.plan import Plan, PlannedCheck


def first(plan: Plan, failed: Collection[str]) -> Plan:
    """The same plan, the parts and the checks that failed before the others. A part's checks stay together."""
    parts: dict[str, list[PlannedCheck]] = {}
    for check in plan.checks:
        parts.setdefault(check.part.name, []).append(check)
    groups = [sorted(group, key=lambda check: check.id not in failed) for group in parts.values()]
    groups.sort(key=lambda group: group[0].id not in failed)
    return replace(plan, checks=tuple(check for group in groups for check in group))


def in_order(record: Record, exercise: Exercise) -> Record:
    """The same record, parts and checks as the exercise lists them."""
    parts = {part.name: i for i, part in enumerate(exercise.parts)}
    checks = {check_id(part, check): i for i, (part, check) in enumerate(exercise.checks())}
    return replace(
        record,
        parts=tuple(sorted(record.parts, key=lambda part: parts.get(part.name, len(parts)))),
        checks=tuple(sorted(record.checks, key=lambda check: checks.get(check.id, len(checks)))),
    )
