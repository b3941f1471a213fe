"""Render plain CSV for any spreadsheet, and keep the rules of every CSV here: safe cells, rounding, quoting."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Decimal
from pathlib import Path

from grader.batch.gradebook import Assignment, Gradebook, Mark, Student
from grader.export.formats import CheckPoints, ClassFiles, Format
from grader.record.record import Record
from grader.record.statuses import UNJUDGED
from grader.report import view

_CENT = Decimal("0.01")
# A formula may begin with invisible characters, which are shown as \ufffd, or with the wide form of its sign.
_FORMULA = re.compile(r"((?:^|;)[\s\"\ufffd]*)([=+\-@\uff1d\uff0b\uff0d\uff20])")
_WHO = ("student", "name", "email", "section")
_MARK = ("status", "points", "earned", "judged", "max_points", "days_late", "penalty")
_BY_HAND = ("override", "reason", "author", "comment")


def points_of(record: Record) -> dict[str, float]:
    """Return the points of the judged checks by id. A check that was not judged has none, not zero."""
    return {check.id: check.points for check in record.checks if check.status not in UNJUDGED}


def files(book: Gradebook, checks: CheckPoints) -> dict[str, str]:
    """Return gradebook.csv (a student a line, an exercise a column), and for every exercise a file with its checks."""
    each = {f"{one.id}.csv": exercise(book, one.id, checks) for one in book.assignments}
    return {"gradebook.csv": gradebook(book), **each}


def gradebook(book: Gradebook) -> str:
    """Return points by student and exercise, their sum, and the points not judged.

    A missing submission is an empty cell.
    """
    marks = {(mark.student, mark.exercise): mark for mark in book.marks}
    rows = []
    for student in book.students:
        own = [marks[student.id, one.id] for one in book.assignments if (student.id, one.id) in marks]
        cells = [_points(mark) for mark in own]
        total = score(sum(mark.points for mark in own), sum(mark.max_points for mark in own))
        rows.append([*_who(student), *cells, total, view.points(sum(map(_open, own)))])
    return text([*_WHO, *(safe(one.id) for one in book.assignments), "total", "not judged"], rows)


def exercise(book: Gradebook, exercise_id: str, checks: CheckPoints) -> str:
    """Return every mark of one exercise with its details, and the points of its checks."""
    ids = list(dict.fromkeys(name for (_, one), found in checks.items() if one == exercise_id for name in found))
    students = {student.id: student for student in book.students}
    rows = []
    for mark in book.marks:
        if mark.exercise == exercise_id:
            own = checks.get((mark.student, exercise_id), {})
            points = [view.points(own[name]) if name in own else "" for name in ids]
            rows.append([*_who(students[mark.student]), *_mark(mark), *points])
    return text([*_WHO, *_MARK, *_BY_HAND, "submitted_at", "record", *map(safe, ids)], rows)


def _who(student: Student) -> list[str]:
    return [safe(student.id), safe(student.name), safe(student.email), safe(student.section)]


def _mark(mark: Mark) -> list[str]:
    return [
        safe(mark.status),
        _points(mark),
        view.points(mark.earned),
        view.points(mark.judged),
        view.points(mark.max_points),
        str(mark.days_late),
        view.points(mark.penalty),
        *_by_hand(mark),
        safe(mark.submitted_at),
        safe(mark.record),
    ]


def _by_hand(mark: Mark) -> list[str]:
    """Return the points that were given by hand, the reasons, who gave them, and the comments; parts by name."""

    def joined(texts: Iterable[tuple[str, str]]) -> str:
        return safe("; ".join(dict.fromkeys(f"{part}: {text}" if part else text for part, text in texts if text)))

    given = [(one, one.part, "" if one.points is None else view.points(one.points)) for one in mark.overrides]
    return [
        joined((part, points) for _, part, points in given),
        joined((part, one.reason) for one, part, _ in given),
        joined(("", one.author) for one, _, _ in given),
        joined((part, one.comment) for one, part, _ in given),
    ]


def _points(mark: Mark) -> str:
    """Return the points that count; '' if nothing was handed in or nothing could be judged."""
    if mark.override is None and (mark.status == "missing" or not mark.judged):
        return ""
    return score(mark.points, mark.max_points)


def _open(mark: Mark) -> float:
    return 0.0 if mark.override is not None or mark.status == "missing" else mark.max_points - mark.judged


def score(value: float, most: float) -> str:
    """Return points with at most two decimals. Fewer than `most` are never rounded up to it."""
    exact = Decimal(repr(float(value)))
    rounded = exact.quantize(_CENT, ROUND_HALF_EVEN)
    if value < most and rounded >= Decimal(repr(float(most))):
        rounded = exact.quantize(_CENT, ROUND_DOWN)
    return f"{rounded.normalize():f}"


def safe(value: str) -> str:
    """Return text that a spreadsheet shows and never computes, on one line.

    A text that would be a formula gets an apostrophe in front, also after a semicolon, where some languages begin a
    cell.
    """
    return _FORMULA.sub(r"\1'\2", view.line(value, 2000))


def text(header: Sequence[str], rows: Iterable[Sequence[str]], delimiter: str = ",") -> str:
    """Return the lines of a CSV file, quoted where needed."""
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows(rows)
    return stream.getvalue()


def of_record(record: Record) -> str:
    """Return the mark and the checks of one record, as a table with one line."""
    student = Student(record.submission.student or Path(record.submission.path).stem)
    assignment = Assignment(record.exercise.id, record.exercise.title, record.max_score)
    scores = (record.verdict, record.score, record.judged_score, record.max_score)
    mark = Mark(student.id, assignment.id, *scores, submitted_at=record.submitted_at)
    checks = {(student.id, assignment.id): points_of(record)}
    return exercise(Gradebook((assignment,), (student,), (mark,)), assignment.id, checks)


FORMAT = Format(
    "csv",
    "tables for any spreadsheet",
    render=of_record,
    class_files=lambda options, exercises: lambda book, checks: ClassFiles(files(book, checks)),
    marks_only=True,
)
