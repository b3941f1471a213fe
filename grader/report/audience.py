"""What a student may see of a record: their own work and what is wrong with it, and nothing that is kept secret.

The rest of a student's files is made from what `for_student` leaves; what is not in there cannot leak from them. The
seed itself never reaches a submission, but the seeds of single cases do, and with them whatever it says while it runs.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

from grader.record import Cause, CheckResult, PrintedOutput, Record
from grader.report import view
from grader.report.status import LOOKS

HIDDEN = "hidden"


def for_student(record: Record, *, secret: bool, file: str = "") -> Record:
    """The record without the instructor's paths; a `secret` plan (a seed of the instructor's own) goes as well: seed,
    replay tokens, the drawn cases, values, and whatever the submission said while it ran on them. `file`: the
    submission's path as the student knows it, its bare name unless given.
    """
    name = file or PurePath(view.line(record.submission.path, 600)).name
    command = f"grade {view.line(record.exercise.id, 60)}"
    shown = replace(record, submission=replace(record.submission, path=name), command=command)
    if not secret or record.seed == HIDDEN:
        return shown
    return replace(
        shown,
        seed=HIDDEN,
        printed=PrintedOutput(),
        # A kernel's constants and its launch tell of the sizes.
        parts=tuple(replace(part, kernels=(), uncompiled={}) for part in record.parts),
        checks=tuple(_without_cases(check) for check in record.checks),
    )


def _without_cases(check: CheckResult) -> CheckResult:
    """A check of a secret plan: what it examines, how it ended, and where an output is wrong; no case and no value."""
    if check.status == "invalid_submission":
        # It was never run on a case: what keeps the file from being loaded is no secret.
        return check
    if not (check.cause or check.counterexample or check.evidence or check.work or check.selection):
        return check
    cause = _named(check) if check.cause is not None else None
    return replace(
        check,
        reason=cause.rationale if cause is not None else check.reason,
        cause=cause,
        counterexample=None,
        evidence={},
        work=(),
        selection=None,
    )


def _title(cause: Cause) -> str:
    """The title; one with a number in it may tell of a size, and gives way to the kind."""
    told = any(letter.isdigit() for letter in cause.title)
    return f"Looks like: {cause.suspects[0].kind.replace('_', ' ')}" if told and cause.suspects else cause.title


def _named(check: CheckResult) -> Cause:
    """The cause's name, where the output is wrong, and advice that the grader wrote; never the submission's words."""
    cause = check.cause
    assert cause is not None
    where = f"The output is wrong {view.where(cause.mismatch)}. " if cause.mismatch is not None else ""
    return Cause(
        kind=cause.kind,
        title=_title(cause) if check.status == "fail" else LOOKS[check.status].word,
        rationale=f"{where}The cases of this grading are kept secret.",
        # Where code stopped, the help quotes what was seen before.
        help=cause.help if check.status == "fail" else "",
    )
