"""From an OUT_DIR to records and a gradebook. Scores come from the records; batch.json says who and what was asked.

Everything here was written by `grade batch`, but records quote submissions: they are decoded into the record's types
or reported as unreadable, one by one, so that a damaged file stops nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec

from grader.batch.gradebook import Assignment, Gradebook, Mark, Override, Student
from grader.errors import UsageError
from grader.record import Record

Schema = Literal["grade/batch/v1"]


@dataclass(frozen=True)
class Asked:
    """What batch.json says of one student and exercise, beside the record."""

    student: str
    exercise: str
    days_late: int = 0
    penalty: float = 0.0
    submitted_at: str = ""
    override: Override | None = None


@dataclass(frozen=True)
class Batch:
    """batch.json."""

    schema: Schema
    title: str
    assignments: tuple[Assignment, ...]
    students: tuple[Student, ...]
    marks: tuple[Asked, ...]


# A class has thousands of records: read strictly into the record's types all the same, but by compiled code
# (0.9 ms for one of 64 kB; grader.record.from_json takes 21 ms).
_RECORDS = msgspec.json.Decoder(Record)
# batch.json may say more than is read here: late policy, seed, what was graded with what.
_BATCHES = msgspec.json.Decoder(Batch)


@dataclass(frozen=True)
class Found:
    """One file of records/: its record, or why it cannot be read."""

    student: str
    exercise: str
    path: str
    record: Record | None
    problem: str = ""


def read(out_dir: Path, visit: Callable[[Found], None] | None = None) -> Gradebook:
    """The gradebook of an OUT_DIR. `visit` is given every record on the way, so that each is read once.

    Raises UsageError when the folder is no OUT_DIR.
    """
    batch = read_batch(out_dir)
    asked = {(one.student, one.exercise): one for one in batch.marks}
    marks: dict[tuple[str, str], Mark] = {}
    for found in _records(out_dir, batch):
        if visit is not None:
            visit(found)
        key = found.student, found.exercise
        marks[key] = _mark(found, asked.get(key) or Asked(*key), _most(batch, found.exercise))
    missing = (
        _missing(asked.get((student.id, one.id)) or Asked(student.id, one.id), one.max_points)
        for student in batch.students
        for one in batch.assignments
        if (student.id, one.id) not in marks
    )
    for mark in missing:
        marks[mark.student, mark.exercise] = mark
    ordered = tuple(marks[student.id, one.id] for student in batch.students for one in batch.assignments)
    return Gradebook(batch.assignments, batch.students, ordered)


def records(out_dir: Path, share: int = 0, of: int = 1) -> Iterator[Found]:
    """Every record of an OUT_DIR, in the order of students and assignments; or those of one share of the students.

    Raises UsageError.
    """
    batch = read_batch(out_dir)
    return _records(out_dir, replace(batch, students=batch.students[share::of]))


def read_record(path: Path) -> Record:
    """A single record's file. Raises UsageError."""
    found = _found("", "", path, str(path))
    if found.record is None:
        raise UsageError(f"a record must be a grade/result/v1 document, got {path}: {found.problem}")
    return found.record


def read_batch(out_dir: Path) -> Batch:
    """batch.json, checked. Raises UsageError."""
    path = out_dir / "batch.json"
    try:
        batch = _BATCHES.decode(path.read_bytes())
    except OSError as refused:
        raise UsageError(f"an OUT_DIR must hold batch.json, got {path}: {refused.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as broken:
        raise UsageError(f"batch.json must be a grade/batch/v1 document, got {path}: {broken}") from None
    for kind, ids in (("student", [one.id for one in batch.students]), ("exercise", [a.id for a in batch.assignments])):
        if len(set(ids)) != len(ids):
            raise UsageError(f"every {kind} must be named once, got {next(i for i in ids if ids.count(i) > 1)!r} again")
        for name in ids:
            if not name or name in (".", "..") or "/" in name or "\0" in name:
                raise UsageError(f"a {kind}'s id must be the name of a file, got {name!r}")
    return batch


def _records(out_dir: Path, batch: Batch) -> Iterator[Found]:
    for student in batch.students:
        for assignment in batch.assignments:
            inside = f"records/{student.id}/{assignment.id}.json"
            if (path := out_dir / inside).is_file():
                yield _found(student.id, assignment.id, path, inside)


def _found(student: str, exercise: str, path: Path, shown: str) -> Found:
    try:
        record = _RECORDS.decode(path.read_bytes())
    except OSError as refused:
        return Found(student, exercise, shown, None, str(refused.strerror))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as broken:
        return Found(student, exercise, shown, None, str(broken))
    if exercise and record.exercise.id != exercise:
        return Found(student, exercise, shown, None, f"it is a record of {record.exercise.id}")
    if student and record.submission.student not in ("", student):
        return Found(student, exercise, shown, None, "it is another student's record")
    return Found(student, exercise, shown, record)


def _mark(found: Found, asked: Asked, most: float) -> Mark:
    record = found.record
    submitted = asked.submitted_at or (record.submitted_at if record else "")
    status = record.verdict if record else "grader_error"
    earned, judged = (record.score, record.judged_score) if record else (0.0, 0.0)
    return Mark(
        asked.student,
        asked.exercise,
        status,
        earned,
        judged,
        most,
        submitted,
        asked.days_late,
        asked.penalty,
        asked.override,
        found.path,
    )


def _missing(asked: Asked, most: float) -> Mark:
    """Nothing was handed in; an override counts all the same."""
    return Mark(asked.student, asked.exercise, "missing", 0.0, 0.0, most, override=asked.override)


def _most(batch: Batch, exercise: str) -> float:
    return next(one.max_points for one in batch.assignments if one.id == exercise)
