"""Classes to export and report: an OUT_DIR as `grade batch` leaves it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grader.batch.gradebook import Assignment, Gradebook, Mark, Override, Student
from grader.record import Record, to_json
from tests.records import samples

ADA = Student(
    "ada",
    "Lovelace, Ada",
    "ada@uni.example",
    "GPU-A",
    {"canvas": "5501", "sis": "s-77", "login": "ada", "github": "al"},
)
GRACE = Student("grace", "Hopper, Grace", "grace@uni.example", "GPU-A", {"canvas": "5502", "login": "grace"})
EVIL = Student("evil", '=HYPERLINK("http://x")', "+1@uni.example", "@sum", {"canvas": "5503"})
LATE = Student("late", "Late, Latif", "late@uni.example", "GPU-B", {"login": "latif"})
STUDENTS = (ADA, GRACE, EVIL, LATE)
ASSIGNMENT = Assignment("ex_15", "Triton basics", 41.0)


def all_judged() -> Record:
    """A record of 41 points, all of them judged and 29.5 earned."""
    checks = (
        samples.check("vector_add.full", "Right for full blocks", points=20, most=20),
        samples.check("vector_add.tail", "Right for tails", points=9.5, most=11),
        samples.check("vector_add.kernels", "Kernels do the work", "fail", most=10, cause=samples.tail_mismatch()),
    )
    return samples.record(checks, (samples.VECTOR_ADD,))


def book() -> Gradebook:
    """Ada has all judged, Grace in part, evil an override, and Latif handed nothing in."""
    marks = (
        Mark("ada", "ex_15", "fail", 29.5, 41.0, 41.0, "2026-11-02T08:15:00Z", 2, 4.0, record="records/ada/ex_15.json"),
        Mark("grace", "ex_15", "crash", 11.0, 32.0, 41.0, record="records/grace/ex_15.json"),
        Mark("evil", "ex_15", "fail", 0.0, 41.0, 41.0, override=Override(40.999, "=1+1, appealed", "@prof")),
        Mark("late", "ex_15", "missing", 0.0, 0.0, 41.0),
    )
    return Gradebook((ASSIGNMENT,), STUDENTS, marks)


def owned(record: Record, student: str) -> Record:
    """The record as that student's."""
    return dataclasses.replace(record, submission=dataclasses.replace(record.submission, student=student))


def write(
    folder: Path,
    records: Mapping[tuple[str, str], Record],
    students: tuple[Student, ...] = STUDENTS,
    assignments: tuple[Assignment, ...] = (ASSIGNMENT,),
    marks: tuple[dict[str, Any], ...] = (),
) -> Path:
    """An OUT_DIR."""
    document = {
        "schema": "grade/batch/v1",
        "title": "GPU course",
        "late_policy": {"unknown": "here"},
        "assignments": [dataclasses.asdict(one) for one in assignments],
        "students": [dataclasses.asdict(one) for one in students],
        "marks": marks,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "batch.json").write_text(json.dumps(document), encoding="utf-8")
    for (student, exercise), record in records.items():
        path = folder / "records" / student / f"{exercise}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(to_json(owned(record, student)), encoding="utf-8", errors="replace")
    return folder


def out_dir(folder: Path) -> Path:
    """The class of `book`, as an OUT_DIR."""
    records = {("ada", "ex_15"): all_judged(), ("grace", "ex_15"): samples.failing(), ("evil", "ex_15"): all_judged()}
    marks = (
        {"student": "ada", "exercise": "ex_15", "days_late": 2, "penalty": 4.0, "submitted_at": "2026-11-02T08:15:00Z"},
        {
            "student": "evil",
            "exercise": "ex_15",
            "override": {"points": 40.999, "reason": "=1+1, appealed", "author": "@prof"},
        },
    )
    return write(folder, records, marks=marks)
