"""Reduce a record to what a student may see: their own work and its errors, but nothing secret.

Takes a record, and whether its plan is secret. Gives a new record, with the same points and verdict. Never changes the
given record, and writes no file. A student's files of a secret plan are made from the new record only, so what is
removed cannot leak.

All output of the submission is removed with a secret plan. A submission never learns the seed of the plan. But it gets
each case, so it can print what it got.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePath

from grader.record.causes import Cause
from grader.record.checks import CheckResult, PartInfo
from grader.record.record import PrintedOutput, Record
from grader.report import view
from grader.report.status import LOOKS

HIDDEN = "hidden"
# How many cases were run: the only number of a check that the submission cannot influence.
_COUNTED = ("cases",)
# Causes whose titles quote names from the submission's kernels.
_QUOTING = ("out_of_bounds", "race")
_SENTENCE_END = re.compile(r"(?<=[.?!]) ")
# 0 is the size of nothing: advice such as "subtract 0 instead" stays.
_NUMBER = re.compile(r"(?<![\w.])(?!0(?![\w.]))\d+(?!\w)")
# Causes whose advice quotes the names of arguments, or a compiler's message.
_QUOTED_ADVICE = ("value_read", "compile_error")


def for_student(record: Record, *, secret: bool, file: str = "") -> Record:
    """Return the record as a student may see it, without the instructor's paths.

    secret: the plan comes from the instructor's own seed. Then these are removed: the seed, replay tokens, drawn
    cases, values, kernels and what they touch, run times of checks, and all output of the submission. The submission
    could pass on a case by any of them. So are the duration and the timeline of the whole grading. The measured speed
    stays. If not secret, or if the seed is hidden already, only the path and the command change.
    file: the submission's path as the student knows it; its bare name unless given.
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
        duration_s=0.0,
        timeline=(),
        # A kernel's constants and its launches reveal the sizes.
        parts=tuple(PartInfo(part.name, part.title) for part in record.parts),
        checks=tuple(_without_cases(check) for check in record.checks),
    )


def _without_cases(check: CheckResult) -> CheckResult:
    """Return a check of a secret plan without cases and values.

    Its aim, its outcome, the number of cases and the place of errors stay. A file that does not load stays unchanged.
    """
    if check.status == "invalid_submission":
        # No case was run, so the reason why the file does not load is no secret.
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


def _title(cause: Cause, *, is_quoting: bool) -> str:
    """Return the cause's title, or its kind where the title may leak.

    is_quoting: it may hold the submission's names, as a title about forbidden access does. These may carry a message; a
    number may tell a size.
    """
    if not any(letter.isdigit() for letter in cause.title) and not is_quoting and cause.kind not in _QUOTING:
        return cause.title
    found = (cause.suspects[0].kind if cause.suspects else cause.kind).replace("_", " ")
    seen = f"{cause.kind.replace('_', ' ').capitalize()}: looks" if cause.kind in _QUOTING else "Looks"
    is_likely = bool(cause.suspects) and not (is_quoting and cause.suspects[0].confirmed)
    return f"{seen} like: {found}" if is_likely else found.capitalize()


def _without_numbers(text: str) -> str:
    """Return the sentences of a text that hold no number."""
    return " ".join(one for one in _SENTENCE_END.split(text) if not _NUMBER.search(one))


def _named(check: CheckResult) -> Cause:
    """Return the cause without the submission's words: its title, the place of the errors, and the grader's advice.

    The submission chooses the words of an exception: only its status is told. It also chooses the names that a suspect
    of a stopped call quotes: only its kind is told. The check must have a cause.
    """
    cause = check.cause
    assert cause is not None
    is_quoting = bool(cause.suspects) and check.status not in ("fail", "policy")
    has_advice = not (is_quoting or cause.traceback or cause.kind in _QUOTED_ADVICE)
    where = f"The output is wrong {view.where(cause.mismatch)}. " if cause.mismatch is not None else ""
    return Cause(
        kind=cause.kind,
        title=LOOKS[check.status].word if cause.traceback else _title(cause, is_quoting=is_quoting),
        rationale=f"{where}The cases of this grading are kept secret.",
        help=_without_numbers(cause.help) if has_advice else "",
    )
