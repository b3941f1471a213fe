"""What a student may see of a record: their own work and what is wrong with it, and nothing that is kept secret.

The rest of a student's files is made from what `for_student` leaves; what is not in there cannot leak from them. The
seed itself never reaches a submission, but the seeds of single cases do, and with them whatever it says while it runs.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePath

from grader.record import Cause, CheckResult, PrintedOutput, Record
from grader.report import view
from grader.report.status import LOOKS

HIDDEN = "hidden"
# How many cases of the plan were run: of a check's figures the one that the submission does not make.
_COUNTED = ("cases",)
# Causes that are told by what the submission's process said of its kernels.
_QUOTING = ("out_of_bounds", "race")
_SENTENCE_END = re.compile(r"(?<=[.?!]) ")
_NUMBER = re.compile(r"(?<![\w.])\d+(?!\w)")


def for_student(record: Record, *, secret: bool, file: str = "") -> Record:
    """The record without the instructor's paths; a `secret` plan (a seed of the instructor's own) goes as well: seed,
    replay tokens, the drawn cases, values, and whatever the submission said while it ran on them, be it by a name, by a
    figure that it can choose as finely as it wants, or by how long it took. `file`: the submission's path as the
    student knows it, its bare name unless given.
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
    check = replace(
        check, duration_s=0.0, metrics={name: check.metrics[name] for name in _COUNTED if name in check.metrics}
    )
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
    """The title; one with a number in it may tell of a size, one of what the guard saw quotes the submission's names,
    and a name may be a message. They give way to the kind.
    """
    if not any(letter.isdigit() for letter in cause.title) and cause.kind not in _QUOTING:
        return cause.title
    found = (cause.suspects[0].kind if cause.suspects else cause.kind).replace("_", " ")
    seen = f"{cause.kind.replace('_', ' ').capitalize()}: looks" if cause.kind in _QUOTING else "Looks"
    return f"{seen} like: {found}" if cause.suspects else found.capitalize()


def _without_numbers(text: str) -> str:
    """The sentences that hold no number of their own."""
    return " ".join(one for one in _SENTENCE_END.split(text) if not _NUMBER.search(one))


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
        help=_without_numbers(cause.help) if check.status == "fail" else "",
    )
