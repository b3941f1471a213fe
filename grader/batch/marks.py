"""Marks out of records, the late policy and the overrides. Nothing is read or graded here."""

from __future__ import annotations

from collections.abc import Iterable

from grader.batch.gradebook import Assignment, Gradebook, Mark
from grader.batch.store import Batch, StoredRecord, Submission
from grader.record import Record, parts_left_out


def gradebook(batch: Batch, records: Iterable[StoredRecord]) -> Gradebook:
    """Return the marks that these records make; a class's records are gone through once and not held."""
    handed_in = {(one.student, one.exercise): one for one in batch.submissions}
    columns = {column.id: column for column in batch.assignments}
    marks = {
        (one.student, one.exercise): mark(
            batch, one.student, columns[one.exercise], handed_in.get((one.student, one.exercise)), one.record, one.path
        )
        for one in records
    }
    places = [(student.id, column) for student in batch.students for column in batch.assignments]
    ordered = tuple(
        marks.get((student, column.id)) or mark(batch, student, column, handed_in.get((student, column.id)), None)
        for student, column in places
    )
    return Gradebook(batch.assignments, batch.students, ordered)


def mark(
    batch: Batch, student: str, column: Assignment, submission: Submission | None, record: Record | None, path: str = ""
) -> Mark:
    """Return one mark.

    record: None if there is none, or none that can be read. path: its place in OUT_DIR; empty if it has none.
    """
    override = next(
        (one.override for one in batch.overrides if (one.student, one.exercise) == (student, column.id)), None
    )
    if record is None or (submission is None and not path):
        # What was handed in and has no record is not missing: whoever exports marks leaves it open.
        status = "missing" if submission is None and not path else "grader_error"
        return Mark(student, column.id, status, 0.0, 0.0, column.max_points, override=override, record=path)
    submitted_at = (submission.submitted_at if submission else "") or record.submitted_at
    said_late = submission.late if submission else False
    days = batch.policy.days_late(student, column.id, submitted_at, said_late=said_late)
    return Mark(
        student=student,
        exercise=column.id,
        status=record.verdict,
        earned=record.score,
        judged=record.judged_score,
        max_points=column.max_points,
        submitted_at=submitted_at,
        days_late=days,
        penalty=batch.policy.penalty(days, record.score),
        override=override,
        record=path,
        parts_left_out=tuple(parts_left_out(record.checks)),
    )
