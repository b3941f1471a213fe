"""The gradebook: what every student earned in every exercise. Made from records and stored nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from grader.record.statuses import Status

# A record's verdict, or "missing" where nothing was handed in.
MarkStatus = Status | Literal["missing"]

# Statuses of marks without a readable file: bars, medians and averages leave them out.
APART = ("missing", "invalid_submission")


@dataclass(frozen=True)
class Student:
    """A person on the roster, or the owner of a submission outside it.

    id: names the folder and the records. ids: what platforms call the same person, by platform ("canvas", "sis",
    "github", …).
    """

    id: str
    name: str = ""
    email: str = ""
    section: str = ""
    ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Assignment:
    """A column: an exercise and its points."""

    id: str
    title: str
    max_points: float


@dataclass(frozen=True)
class Override:
    """Points and a comment given by hand; they survive every regrading.

    points: instead of those earned, None for a comment alone. reason: for the gradebook. part: empty for the whole
    exercise. comment: for the student.
    """

    points: float | None
    reason: str
    author: str
    part: str = ""
    comment: str = ""


@dataclass(frozen=True)
class Mark:
    """The mark of one student for one exercise.

    status: the record's verdict, or "missing" without a submission. earned: the record's points; judged: the points
    that a machine could decide; days_late and penalty: the days beyond grace, and the points that they cost.
    record: the record's path inside OUT_DIR, empty without one. parts_left_out: the parts without any judged check,
    because this machine lacks a package or a GPU. overrides: the points and comments given by hand. by_hand: the change
    of the earned points by overrides of single parts. Times are UTC, ISO 8601 with a Z.
    """

    student: str
    exercise: str
    status: MarkStatus
    earned: float
    judged: float
    max_points: float
    submitted_at: str = ""
    days_late: int = 0
    penalty: float = 0.0
    overrides: tuple[Override, ...] = ()
    by_hand: float = 0.0
    record: str = ""
    parts_left_out: tuple[str, ...] = ()

    @property
    def override(self) -> float | None:
        """Return the points that were given for the whole exercise; None if they were not."""
        return next((one.points for one in self.overrides if not one.part and one.points is not None), None)

    @property
    def points(self) -> float:
        """Return the points that count."""
        return max(0.0, self.earned + self.by_hand - self.penalty) if self.override is None else self.override


@dataclass(frozen=True)
class Gradebook:
    """All marks of a class: one for every student and exercise, in the order of `students` and `assignments`."""

    assignments: tuple[Assignment, ...]
    students: tuple[Student, ...]
    marks: tuple[Mark, ...]

    def mark(self, student: str, exercise: str) -> Mark:
        """Return the mark of one student for one exercise. Raises KeyError."""
        for mark in self.marks:
            if (mark.student, mark.exercise) == (student, exercise):
                return mark
        raise KeyError(student, exercise)
