"""From OUT_DIR to the gradebook: marks out of records, the late policy and the overrides. Nothing is graded here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from grader.batch.gradebook import Gradebook, Mark
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
    handed_in = {(one.student, one.exercise): one for one in batch.submissions}
    marks = tuple(
        _mark(batch, student.id, column.id, column.max_points, handed_in, records)
        for student in batch.students
        for column in batch.assignments
    )
    return Gradebook(batch.assignments, batch.students, marks)


def _mark(
    batch: Batch,
    student: str,
    exercise: str,
    max_points: float,
    handed_in: Mapping[tuple[str, str], HandedIn],
    records: Mapping[tuple[str, str], Record],
) -> Mark:
    override = next(
        (one.override for one in batch.overrides if (one.student, one.exercise) == (student, exercise)), None
    )
    record, submission = records.get((student, exercise)), handed_in.get((student, exercise))
    if record is None or submission is None:
        # What was handed in and is not graded yet is not missing: whoever exports marks leaves it open.
        status = "missing" if submission is None else "grader_error"
        return Mark(student, exercise, status, 0.0, 0.0, max_points, override=override)
    days = batch.policy.days_late(student, exercise, submission.submitted_at, said_late=submission.late)
    return Mark(
        student=student,
        exercise=exercise,
        status=record.verdict,
        earned=record.score,
        judged=record.judged_score,
        max_points=max_points,
        submitted_at=submission.submitted_at,
        days_late=days,
        penalty=batch.policy.penalty(days, record.score),
        override=override,
        record=f"records/{student}/{exercise}.json",
    )
