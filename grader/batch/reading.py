"""Read an OUT_DIR: its records, and the gradebook that they make with the late policy and the overrides of batch.json.

`grade batch` wrote all of it, but records quote submissions. Each is decoded into the record's types or reported as
unreadable, so that a damaged file stops nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec

from grader.batch.gradebook import Assignment, Gradebook, Mark, Override
from grader.batch.late import LatePolicy
from grader.batch.store import Batch, BatchStore, StoredRecord, Submission
from grader.errors import UsageError
from grader.record.record import Record
from grader.record.verdicts import parts_left_out, points_that_count

# A class has thousands of records. Compiled code reads them, as strictly as grader.record.record.from_json (0.9 ms for
# one of 64 kB; that takes 21 ms).
_RECORDS = msgspec.json.Decoder(Record)
_BATCHES = msgspec.json.Decoder(Batch)


def read(out_dir: Path, visit: Callable[[StoredRecord], None] = lambda found: None) -> Gradebook:
    """Return the gradebook of an OUT_DIR. Calls `visit` with every record, so that each is read once.

    Raises UsageError when the folder is no OUT_DIR.
    """
    batch = read_batch(out_dir)

    def visited() -> Iterator[StoredRecord]:
        for found in _records(out_dir, batch):
            visit(found)
            yield found

    return gradebook(batch, visited())


def records(out_dir: Path, share: int = 0, of: int = 1) -> Iterator[StoredRecord]:
    """Return the records of an OUT_DIR in the order of students and assignments; or of one share of the students.

    Raises UsageError.
    """
    batch = read_batch(out_dir)
    return _records(out_dir, replace(batch, students=batch.students[share::of]))


def record_of(out_dir: Path, student: str, exercise: str) -> Record | None:
    """Return a student's record; None where there is none, or if the record is somebody else's."""
    return _found(student, exercise, BatchStore(out_dir).record_path(student, exercise), "").record


def read_record(path: Path) -> Record:
    """Return a single record's file. Raises UsageError."""
    found = _found("", "", path, str(path))
    if found.record is None:
        raise UsageError(f"a record must be a grade/result/v1 document, got {path}: {found.problem}")
    return found.record


def read_batch(out_dir: Path) -> Batch:
    """Return batch.json, checked. Raises UsageError."""
    path = out_dir / "batch.json"
    try:
        batch = _BATCHES.decode(path.read_bytes())
    except OSError as refused:
        raise UsageError(
            f"a folder that `grade batch` wrote must hold batch.json, got {path}: {refused.strerror}"
        ) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as broken:
        raise UsageError(f"batch.json must be a grade/batch/v1 document, got {path}: {broken}") from None
    for kind, ids in (("student", [one.id for one in batch.students]), ("exercise", [a.id for a in batch.assignments])):
        if len(set(ids)) != len(ids):
            raise UsageError(f"every {kind} must be named once, got {next(i for i in ids if ids.count(i) > 1)!r} again")
        for name in ids:
            if not name or name in (".", "..") or "/" in name or "\0" in name:
                raise UsageError(f"a {kind}'s id must be the name of a file, got {name!r}")
    return batch


def _records(out_dir: Path, batch: Batch) -> Iterator[StoredRecord]:
    store = BatchStore(out_dir)
    for student in batch.students:
        for assignment in batch.assignments:
            if (path := store.record_path(student.id, assignment.id)).is_file():
                yield _found(student.id, assignment.id, path, str(path.relative_to(out_dir)))


def _found(student: str, exercise: str, path: Path, shown: str) -> StoredRecord:
    try:
        record = _RECORDS.decode(path.read_bytes())
    except OSError as refused:
        return StoredRecord(student, exercise, shown, None, str(refused.strerror))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as broken:
        return StoredRecord(student, exercise, shown, None, str(broken))
    if exercise and record.exercise.id != exercise:
        return StoredRecord(student, exercise, shown, None, f"it is a record of {record.exercise.id}")
    if student and record.submission.student not in ("", student):
        return StoredRecord(student, exercise, shown, None, "it is another student's record")
    return StoredRecord(student, exercise, shown, record)


# -- marks -----------------------------------------------------------------------------------------------------------


def gradebook(batch: Batch, records: Iterable[StoredRecord]) -> Gradebook:
    """Return the marks of these records; reads the records once and holds none."""
    submissions = {(one.student, one.exercise): one for one in batch.submissions}
    overrides: dict[tuple[str, str], tuple[Override, ...]] = {}
    for row in batch.overrides:
        overrides[row.student, row.exercise] = (*overrides.get((row.student, row.exercise), ()), row.override)
    columns = {column.id: column for column in batch.assignments}

    def mark(student: str, column: Assignment, found: StoredRecord | None) -> Mark:
        place = student, column.id
        blank = Mark(*place, "missing", 0.0, 0.0, column.max_points, overrides=overrides.get(place, ()))
        return _mark(blank, submissions.get(place), found, batch.policy)

    marks = {(one.student, one.exercise): mark(one.student, columns[one.exercise], one) for one in records}
    ordered = tuple(
        marks.get((student.id, column.id)) or mark(student.id, column, None)
        for student in batch.students
        for column in batch.assignments
    )
    return Gradebook(batch.assignments, batch.students, ordered)


def _mark(blank: Mark, submission: Submission | None, found: StoredRecord | None, policy: LatePolicy) -> Mark:
    """Return the mark of one student for one exercise. blank: that of a student without a submission or a record."""
    path = found.path if found else ""
    record = found.record if found else None
    if record is None:
        # A submission without a record is not missing: an export leaves its mark open.
        return blank if submission is None and found is None else replace(blank, status="grader_error", record=path)
    submitted_at = (submission.submitted_at if submission else "") or record.submitted_at
    said_late = submission is not None and submission.late
    days = policy.days_late(blank.student, blank.exercise, submitted_at, said_late=said_late)
    given = {one.part: one.points for one in blank.overrides if one.part and one.points is not None}
    points, judged = points_that_count(record.checks, given) if given else (record.score, record.judged_score)
    return replace(
        blank,
        status=record.verdict,
        earned=record.score,
        judged=judged,
        submitted_at=submitted_at,
        days_late=days,
        penalty=policy.penalty(days, points),
        by_hand=points - record.score,
        record=path,
        parts_left_out=tuple(part for part in parts_left_out(record.checks) if part not in given),
    )
