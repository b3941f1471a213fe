"""Read an instructor's CSV files: overrides of marks, and times of submissions. Errors name the line."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from math import isfinite

from grader.batch.gradebook import Override
from grader.batch.moments import utc
from grader.errors import UsageError

_OVERRIDE = ("student", "exercise", "points", "reason", "author", "time")
_TIME = ("student", "exercise", "submitted_at")


@dataclass(frozen=True)
class OverrideRow:
    """A row of the table of overrides, and of batch.json: whose mark is overridden, and when that was decided."""

    student: str
    exercise: str
    override: Override
    time: str


def read_rows(text: str, path: object) -> tuple[tuple[str, ...], list[tuple[int, tuple[str, ...]]]]:
    """Return the first row of a CSV file, and the others that are not blank, each with the number of its last line.

    Accepts every line ending. Raises UsageError.
    """
    reader = csv.reader(io.StringIO(text.lstrip("\ufeff"), newline=None))
    try:
        rows = [(reader.line_num, tuple(row)) for row in reader if row]
    except csv.Error as broken:
        raise UsageError(f"{path}, line {reader.line_num}: a table must be CSV, got: {broken}") from broken
    return (rows[0][1] if rows else ()), rows[1:]


def parse_overrides(
    text: str, students: Collection[str], exercises: Collection[str], path: object = "overrides"
) -> tuple[OverrideRow, ...]:
    """Return the rows of a table of overrides; of two for the same mark the later line counts. Raises UsageError."""
    found: dict[tuple[str, str], OverrideRow] = {}
    for place, row in _rows(text, _OVERRIDE, path):
        _known(place, "student", row["student"], students)
        _known(place, "exercise", row["exercise"], exercises)
        for name in ("reason", "author"):
            if not row[name]:
                raise UsageError(f"{place}: {name} must be given, got nothing")
        given = Override(_points(place, row["points"]), row["reason"], row["author"])
        time = _moment(place, "time", row["time"]) if row["time"] else ""
        found[row["student"], row["exercise"]] = OverrideRow(row["student"], row["exercise"], given, time)
    return tuple(found.values())


def parse_times(text: str, path: object = "times") -> dict[str, str]:
    """Return the times of submissions, in UTC, by "STUDENT/EXERCISE". Raises UsageError."""
    return {
        f"{row['student']}/{row['exercise']}": _moment(place, "submitted_at", row["submitted_at"])
        for place, row in _rows(text, _TIME, path)
    }


def _rows(text: str, columns: tuple[str, ...], path: object) -> Iterator[tuple[str, dict[str, str]]]:
    head, rows = read_rows(text, path)
    got = tuple(name.strip().lower() for name in head)
    if not set(columns) <= {*got, "time"}:
        raise UsageError(f"{path}: the columns must be {', '.join(columns)}, got {', '.join(got) or 'none'}")
    for line, row in rows:
        told = dict(zip(got, row, strict=False))
        values = {name: told.get(name, "").strip() for name in columns}
        if any(values.values()):
            yield f"{path}, line {line}", values


def _known(place: str, what: str, value: str, known: Collection[str]) -> None:
    if value not in known:
        raise UsageError(f"{place}: {what} must be one of the class's, got {value!r}")


def _points(place: str, text: str) -> float:
    try:
        points = float(text)
    except ValueError:
        points = -1.0
    if not isfinite(points) or points < 0:
        raise UsageError(f"{place}: points must be a number of at least 0, got {text!r}")
    return points


def _moment(place: str, name: str, text: str) -> str:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{place}: {name} must be a moment such as 2026-11-02T08:15:00Z, got {text!r}") from None
    if moment.tzinfo is None:
        raise UsageError(f"{place}: {name} must have an offset, such as Z or +01:00, got {text!r}")
    try:
        return utc(moment)
    except UsageError as refused:
        raise UsageError(f"{place}: {name}: {refused}") from None
