"""From an OUT_DIR to records and a gradebook. Scores come from the records; batch.json says who and what was asked.

Everything here was written by `grade batch`, but records quote submissions: they are decoded into the record's types
or reported as unreadable, one by one, so that a damaged file stops nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from grader.batch.gradebook import Gradebook, Mark
from grader.batch.kept import Batch
from grader.batch.marks import mark
from grader.errors import UsageError
from grader.record import Record

# A class has thousands of records: read strictly into the record's types all the same, but by compiled code
# (0.9 ms for one of 64 kB; grader.record.from_json takes 21 ms).
_RECORDS = msgspec.json.Decoder(Record)
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
    handed_in = batch.handed_in()
    columns = {column.id: column for column in batch.assignments}
    marks: dict[tuple[str, str], Mark] = {}
    for found in _records(out_dir, batch):
        if visit is not None:
            visit(found)
        key = found.student, found.exercise
        marks[key] = mark(batch, found.student, columns[found.exercise], handed_in.get(key), found.record, found.path)
    places = [(student.id, column) for student in batch.students for column in batch.assignments]
    ordered = tuple(
        marks.get((student, column.id)) or mark(batch, student, column, handed_in.get((student, column.id)), None)
        for student, column in places
    )
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
