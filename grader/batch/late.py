"""The late policy: how many days late a submission is, and what that costs. Read from a TOML file.

due = 2026-11-02T23:59:00+01:00     # of every exercise that names none of its own
grace_days = 2                      # days after that which cost nothing
percent_per_day = 10                # of the points earned, for every day begun after them
cap_percent = 50                    # at most

[exercises.ex_16]
due = 2026-11-16T23:59:00+01:00

[[extensions]]
student = "ada"
exercise = "ex_15"                  # every exercise where none is named
days = 3                            # or: until = 2026-11-09T12:00:00+01:00
reason = "ill"
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from grader.batch.tables import known
from grader.errors import UsageError
from grader.moments import utc
from grader.protocol.decode import DecodeError, decode

_DAY = timedelta(days=1)
_MOST_DAYS = 3660.0
_KEYS = ("due", "grace_days", "percent_per_day", "cap_percent", "exercises", "extensions")


@dataclass(frozen=True)
class Extension:
    """More time for one student: so many days, or until a moment (UTC, ISO 8601). exercise: empty for every one."""

    student: str
    exercise: str = ""
    days: float = 0.0
    until: str = ""
    reason: str = ""


@dataclass(frozen=True)
class LatePolicy:
    """Deadlines, and the cost of lateness. due: moments by exercise, in UTC; the key "" is for every other."""

    due: dict[str, str] = field(default_factory=dict)
    grace_days: float = 0.0
    percent_per_day: float = 0.0
    cap_percent: float = 100.0
    extensions: tuple[Extension, ...] = ()

    def deadline(self, student: str, exercise: str) -> datetime | None:
        """Return the student's deadline, extensions included; None if there is none."""
        due = self.due.get(exercise, self.due.get("", ""))
        if not due:
            return None
        deadline = datetime.fromisoformat(due)
        for extension in self.extensions:
            if extension.student == student and extension.exercise in ("", exercise):
                later = deadline + extension.days * _DAY
                deadline = max(later, datetime.fromisoformat(extension.until)) if extension.until else later
        return deadline

    def days_late(self, student: str, exercise: str, submitted_at: str, *, said_late: bool = False) -> int:
        """Return the days begun after the deadline and the days of grace.

        Without a time of submission, one that the platform calls late counts as one day late.
        """
        deadline = self.deadline(student, exercise)
        if not submitted_at:
            extended = any(one.student == student and one.exercise in ("", exercise) for one in self.extensions)
            return 1 if said_late and self.grace_days < 1 and not extended else 0
        if deadline is None:
            return 0
        over = datetime.fromisoformat(submitted_at) - deadline
        return max(0, ceil(over / _DAY - self.grace_days))

    def penalty(self, days_late: int, earned: float) -> float:
        """Return the points that lateness costs."""
        return round(earned * min(self.cap_percent, self.percent_per_day * days_late) / 100, 2)


def parse_policy(text: str, path: object = "late policy") -> LatePolicy:
    """Return the policy of a TOML file. Raises UsageError."""
    try:
        told = tomllib.loads(text)
    # An integer of thousands of digits raises ValueError, deep nesting RecursionError.
    except (ValueError, RecursionError) as broken:
        raise UsageError(f"{path} must be TOML, got: {broken}") from broken
    try:
        return _policy(told)
    except (UsageError, DecodeError) as broken:
        raise UsageError(f"{path}: {broken}") from broken


def check_policy(
    policy: LatePolicy, students: Collection[str], exercises: Collection[str], path: object = "late policy"
) -> None:
    """Raise UsageError for an extension of somebody outside the class, and for an unknown exercise."""
    for exercise in policy.due.keys() - {""}:
        known(f"{path}, exercises", "exercise", exercise, exercises)
    for number, one in enumerate(policy.extensions, 1):
        place = f"{path}, extension {number}"
        known(place, "student", one.student, students)
        if one.exercise:
            known(place, "exercise", one.exercise, exercises)


def _policy(told: Mapping[str, Any]) -> LatePolicy:
    if unknown := sorted(set(told) - set(_KEYS)):
        raise UsageError(f"a key must be one of {', '.join(_KEYS)}, got {unknown[0]}")
    due = {"": _moment("due", told["due"])} if "due" in told else {}
    for exercise, own in _table("exercises", told.get("exercises", {})).items():
        due[exercise] = _moment(f"exercises.{exercise}.due", _table(f"exercises.{exercise}", own).get("due"))
    return LatePolicy(
        due,
        _number(told, "grace_days", 0.0, _MOST_DAYS),
        _number(told, "percent_per_day", 0.0, 100.0),
        _number(told, "cap_percent", 100.0, 100.0),
        tuple(_extension(one) for one in _list("extensions", told.get("extensions", []))),
    )


def _extension(told: object) -> Extension:
    values: dict[str, Any] = dict(_table("extensions", told))
    if "until" in values:
        values["until"] = _moment("extensions.until", values["until"])
    if "days" in values:
        values["days"] = _number(values, "days", 0.0, _MOST_DAYS, -_MOST_DAYS)
    return decode(Extension, values, "extensions")


def _table(name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{name} must be a table, got {value!r}")
    return value


def _moment(name: str, value: object) -> str:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise UsageError(f"{name} must be a moment with an offset such as 2026-11-02T23:59:00+01:00, got {value}")
    return utc(value)


def _list(name: str, value: object) -> Sequence[object]:
    if not isinstance(value, list):
        raise UsageError(f"{name} must be tables [[{name}]], got {value!r}")
    return value


def _number(told: Mapping[str, Any], name: str, default: float, most: float, least: float = 0.0) -> float:
    value = told.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise UsageError(f"{name} must be a number from {least:g} to {most:g}, got {value!r}")
    return float(value)
