"""Classes to export and report: an OUT_DIR as `grade batch` leaves it."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Mapping
from pathlib import Path

import msgspec

from grader.batch.gradebook import Assignment, Gradebook, Mark, Override, Student
from grader.batch.late import LatePolicy
from grader.batch.store import Batch, Submission
from grader.batch.tables import OverrideRow
from grader.record.checks import CheckResult, PartInfo
from grader.record.record import ExerciseInfo, Record, to_json
from grader.record.speed import Speed
from tests.records import compiled, samples

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
        Mark("evil", "ex_15", "fail", 0.0, 41.0, 41.0, overrides=(Override(40.999, "=1+1, appealed", "@prof"),)),
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
    submissions: tuple[Submission, ...] = (),
    overrides: tuple[OverrideRow, ...] = (),
) -> Path:
    """An OUT_DIR."""
    # Late by two days of 6.78 per cent each.
    policy = LatePolicy({"": "2026-10-31T09:00:00Z"}, percent_per_day=6.78)
    batch = Batch(
        assignments, students, submissions, policy=policy, overrides=overrides, source="/home/prof/GPU course"
    )
    document = {**dataclasses.asdict(batch), "unknown": "here"}
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
    on_time = [Submission(*key, "ex_15.py", "key") for key in records if key[0] != "ada"]
    late = Submission("ada", "ex_15", "ex_15.py", "key", submitted_at="2026-11-02T08:15:00Z")
    given = OverrideRow("evil", "ex_15", Override(40.999, "=1+1, appealed", "@prof"), "")
    return write(folder, records, submissions=(late, *on_time), overrides=(given,))


EXERCISES = tuple(Assignment(f"ex_{number}", f"Exercise number {number}", 100.0) for number in (91, 92, 93, 94, 95))
_CAUSES = (
    ("Looks like unwritten memory, or a read beyond an input", "unwritten"),
    ("Only the end is wrong", "tail"),
    ("Wrong values", "mismatch"),
    ("The output is all zeros", "zeros"),
    ("A race between programs", "race"),
)
_TITLES = (
    "Right for lengths that fill every block",
    "Right for lengths that do not fill the last block",
    "Right for large, tiny and constant values",
    "Right for slices of a larger tensor",
    "Every call gives fresh results",
    "Triton kernels do the work",
    "One launch does it all",
    "Moves no more than 3·N elements",
)
_PARTS = ("vector_add", "fused_multiply_add", "row_softmax", "global_sum")


def _graded(exercise: Assignment, rng: random.Random, speeds: tuple[Speed, ...], parts: tuple[PartInfo, ...]) -> Record:
    """A record as a grading leaves it: four parts, 36 checks, some 50 kB."""
    skill, checks = rng.betavariate(4, 2), []
    for part in _PARTS:
        started = rng.random() < 0.55 + 0.45 * skill
        fails = rng.choice(_CAUSES)
        for place, title in enumerate(_TITLES):
            name = f"{part}.c{place}"
            if not started:
                reason = f"{part} raises NotImplementedError."
                checks.append(samples.check(name, title, "not_implemented", most=2.5, reason=reason))
            elif rng.random() < 0.35 + 0.65 * skill:
                checks.append(samples.check(name, title, points=2.5, most=2.5, evidence={"cases": "9"}))
            elif rng.random() < 0.15:
                checks.append(samples.check(name, title, "timeout", most=2.5, reason="No answer within 10 s."))
            else:
                worst = rng.choice((16383, 4557, 1024))
                cause = dataclasses.replace(
                    samples.tail_mismatch(),
                    title=fails[0],
                    kind=fails[1],
                    rationale=f"z: 1 of {worst + 1} elements wrong; the worst is z[{worst}], expected 0.25, got nan.",
                )
                checks.append(samples.check(name, title, "fail", most=2.5, reason=cause.rationale, cause=cause))
        checks.append(_timed(part, rng, skill, speeds))
    info = ExerciseInfo(exercise.id, f"{exercise.id}_name", exercise.title, "1", "9c" * 32)
    return samples.record(tuple(checks), parts, exercise=info, env=samples.H200)


def _timed(part: str, rng: random.Random, skill: float, speeds: tuple[Speed, ...]) -> CheckResult:
    title, most = "Speed relative to cuBLAS", 5.0
    if rng.random() < 0.1:
        reason = "The intervals stayed too wide to decide."
        return samples.check(f"{part}.speed", title, "inconclusive", most=most, reason=reason)
    speed, ratio = rng.choice(speeds), 0.25 + skill * rng.random()
    share = min(1.0, max(0.0, (ratio - 0.3) / 0.6))
    speed = dataclasses.replace(speed, ratio=ratio, ratio_low=ratio * 0.97, ratio_high=ratio * 1.04)
    return samples.check(f"{part}.speed", title, points=round(most * share, 2), most=most, speed=speed)


def large(folder: Path, students: int, exercises: int = 5) -> Path:
    """A class of so many students, the same every time; one in twenty hands nothing in."""
    rng = random.Random(0)  # the same class every time
    people = tuple(
        Student(
            f"s{number:04d}",
            f"Student, Number {number}",
            f"s{number}@uni.example",
            f"S{number % 7}",
            {"canvas": str(5000 + number), "login": f"s{number:04d}"},
        )
        for number in range(students)
    )
    parts = tuple(PartInfo(part, part.replace("_", " "), compiled.gemm().kernels[:2]) for part in _PARTS)
    speeds, chosen = (samples.gemm_speed(),), EXERCISES[:exercises]
    write(folder, {}, people, chosen)
    for student in people:
        for exercise in chosen:
            if rng.random() > 0.05:
                path = folder / "records" / student.id / f"{exercise.id}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                # By compiled code: thousands of these take minutes otherwise.
                path.write_bytes(msgspec.json.encode(owned(_graded(exercise, rng, speeds, parts), student.id)))
    return folder
