"""Read an instructor's CSV files: overrides of marks, and times of submissions. Errors name the line."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isfinite

from grader.batch.gradebook import Override
from grader.errors import UsageError
from grader.moments import utc

_OVERRIDE = ("student", "exercise", "points", "reason", "author", "time", "part", "comment")
_OPTIONAL = {"time", "part", "comment"}
_TIME = ("student", "exercise", "submitted_at")


@dataclass(frozen=True)
class OverrideRow:
    """A row of the table of overrides, and of batch.json: whose mark it overrides, and when that was decided."""

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
    text: str, students: Collection[str], exercises: Mapping[str, Collection[str]], path: object = "overrides"
) -> tuple[OverrideRow, ...]:
    """Return the rows of a table of overrides; the later of two for the same mark or part counts.

    exercises: the parts by exercise. Raises UsageError.
    """
    found: dict[tuple[str, str, str], OverrideRow] = {}
    for place, row in _rows(text, _OVERRIDE, path):
        student, exercise, part = row["student"], row["exercise"], row["part"]
        known(place, "student", student, students)
        known(place, "exercise", exercise, exercises)
        if part and part not in exercises[exercise]:
            raise UsageError(f"{place}: part must be one of {', '.join(exercises[exercise])}, got {part!r}")
        # A comment alone needs no reason.
        for name in ("reason", "author") if row["points"] or not row["comment"] else ("author",):
            if not row[name]:
                raise UsageError(f"{place}: {name} must be given, got nothing")
        points = _points(place, row["points"]) if row["points"] or not row["comment"] else None
        time = _moment(place, "time", row["time"]) if row["time"] else ""
        given = Override(points, row["reason"], row["author"], part, row["comment"])
        found[student, exercise, part] = OverrideRow(student, exercise, given, time)
    rows = tuple(found.values())
    _refuse_both(rows, path)
    return rows


def _refuse_both(rows: Sequence[OverrideRow], path: object) -> None:
    pointed = [one for one in rows if one.override.points is not None]
    whole = {(one.student, one.exercise) for one in pointed if not one.override.part}
    for one in pointed:
        if one.override.part and (one.student, one.exercise) in whole:
            rule = "points must be given for an exercise or for its parts"
            raise UsageError(f"{path}: {rule}, got both for {one.student}, {one.exercise}")


def above_maximum(rows: Iterable[OverrideRow], most: Mapping[tuple[str, str], float]) -> Iterator[str]:
    """Yield a note for points above the maximum, which `most` has by exercise and part ('' for the whole)."""
    for row in rows:
        points, worth = row.override.points, most.get((row.exercise, row.override.part))
        if points is not None and worth is not None and points > worth:
            what = f"{row.exercise} {row.override.part}".rstrip()
            yield f"the override for {row.student}, {what}, gives {points:g} points; it is worth {worth:g}"


def parse_times(
    text: str, students: Collection[str], exercises: Collection[str], path: object = "times"
) -> dict[str, str]:
    """Return the times of submissions, in UTC, by "STUDENT/EXERCISE". Raises UsageError."""
    found: dict[str, str] = {}
    for place, row in _rows(text, _TIME, path):
        known(place, "student", row["student"], students)
        known(place, "exercise", row["exercise"], exercises)
        found[f"{row['student']}/{row['exercise']}"] = _moment(place, "submitted_at", row["submitted_at"])
    return found


def known(place: str, what: str, value: str, those: Collection[str]) -> None:
    """Raise UsageError for an unknown student or exercise."""
    if value not in those:
        raise UsageError(f"{place}: {what} must be one of the class's, got {value!r}")


def _rows(text: str, columns: tuple[str, ...], path: object) -> Iterator[tuple[str, dict[str, str]]]:
    head, rows = read_rows(text, path)
    got = tuple(name.strip().lower() for name in head)
    if not set(columns) <= {*got, *_OPTIONAL}:
        raise UsageError(f"{path}: the columns must be {', '.join(columns)}, got {', '.join(got) or 'none'}")
    for line, row in rows:
        told = dict(zip(got, row, strict=False))
        values = {name: told.get(name, "").strip() for name in columns}
        if any(values.values()):
            yield f"{path}, line {line}", values


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
