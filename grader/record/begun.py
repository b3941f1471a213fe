"""Begin the record of a grading: who graded what, and what its checks sum up to."""

from __future__ import annotations

from grader import __version__
from grader.exercise.catalogue import Entry
from grader.record.checks import CheckResult, PartInfo
from grader.record.record import SCHEMA, Environment, ExerciseInfo, PrintedOutput, Record, SubmissionInfo, Tool
from grader.record.statuses import UNJUDGED
from grader.record.verdicts import verdict_of

# Why nothing is timed on a machine without a GPU.
NOT_TIMED_HERE = "speed is judged on a GPU only, and none is used here"


def begun_record(
    entry: Entry,
    submission: SubmissionInfo,
    env: Environment,
    parts: tuple[PartInfo, ...],
    checks: tuple[CheckResult, ...],
    graded_at: str,
) -> Record:
    """Return the record of some checks; without seed, command, printed text and times."""
    exercise = entry.exercise
    return Record(
        schema=SCHEMA,
        tool=Tool("grade", __version__),
        exercise=ExerciseInfo(entry.id, entry.name, exercise.title, exercise.version, entry.sha256()),
        submission=submission,
        env=env,
        seed="",
        command="",
        verdict=verdict_of(checks),
        score=sum(check.points for check in checks),
        judged_score=sum(check.max_points for check in checks if check.status not in UNJUDGED),
        max_score=sum(check.max_points for check in checks),
        parts=parts,
        checks=checks,
        printed=PrintedOutput(),
        graded_at=graded_at,
        duration_s=0.0,
    )
