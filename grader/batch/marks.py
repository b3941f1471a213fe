"""From OUT_DIR to the gradebook: marks out of records, the late policy and the overrides. Nothing is graded here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from grader.batch.gradebook import Assignment, Gradebook, Mark
from grader.batch.kept import Batch, HandedIn, Kept
from grader.errors import UsageError
from grader.protocol.decode import DecodeError
from grader.record import Record, from_json


def read_gradebook(out: Path) -> Gradebook:
    """The gradebook of a folder that `grade batch` wrote. Raises UsageError."""
    kept = Kept(out)
    batch = kept.batch()
    records = {
        (one.student, one.exercise): record
        for one in batch.submissions
        if (record := read_record(kept, one.student, one.exercise)) is not None
    }
    return gradebook(batch, records)


def read_record(kept: Kept, student: str, exercise: str) -> Record | None:
    """A student's record, None where there is none yet. Raises UsageError for one that is somebody else's."""
    path = kept.record_path(student, exercise)
    try:
        record = from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, DecodeError, ValueError) as broken:
        raise UsageError(f"{path} must be a record, got: {broken}") from broken
    named = record.submission.student, record.exercise.id
    if named != (student, exercise):
        raise UsageError(f"{path} must be of {student}, {exercise}, got a record of {', '.join(named)}")
    return record


def gradebook(batch: Batch, records: Mapping[tuple[str, str], Record]) -> Gradebook:
    """The marks that these records make."""
    handed_in = batch.handed_in()
    places = [(student.id, column) for student in batch.students for column in batch.assignments]
    marks = tuple(
        mark(
            batch,
            student,
            column,
            handed_in.get((student, column.id)),
            records.get((student, column.id)),
            f"records/{student}/{column.id}.json" if (student, column.id) in records else "",
        )
        for student, column in places
    )
    return Gradebook(batch.assignments, batch.students, marks)


def mark(
    batch: Batch, student: str, column: Assignment, submission: HandedIn | None, record: Record | None, path: str = ""
) -> Mark:
    """One mark. record: None where there is none, or none that can be read; path: where it lies in OUT_DIR, empty where
    it does not.
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
    )
