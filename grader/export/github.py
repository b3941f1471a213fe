"""Render GitHub's files: a step summary, annotations, and the Classroom reporter's result (docs/exports.md#github)."""

from __future__ import annotations

import base64
import json
import re
from itertools import accumulate
from typing import Any

from grader.export import markdown, messages
from grader.export.formats import Format
from grader.record.checks import CheckResult
from grader.record.record import Record
from grader.record.statuses import UNJUDGED
from grader.record.verdicts import headline
from grader.report import view


def files(record: Record) -> dict[str, str]:
    """Return the step summary, the annotations, and the value of the reporter's variable, by file name.

    summary.md is for $GITHUB_STEP_SUMMARY, annotations.txt for stdout.
    """
    return {
        "summary.md": markdown.summary(record),
        "annotations.txt": commands(record),
        "classroom.txt": classroom(record) + "\n",
    }


def commands(record: Record) -> str:
    """Return workflow commands: the first failure, on its line if a traceback names one; then the headline."""
    file = view.line(record.submission.path, 300)
    failed = next((check for check in record.checks if check.status in view.LEARNERS), None)
    lines = []
    if failed is not None:
        place = {"file": file, "line": _line(failed, file), "title": view.line(messages.name(failed), 150)}
        lines.append(_command("error", place, messages.full(failed, record)))
    lines.append(_command("notice", {"title": view.line(record.exercise.title, 150)}, headline(record)))
    return "\n".join(lines) + "\n"


def _command(kind: str, properties: dict[str, str], message: str) -> str:
    shown = ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value)
    return f"::{kind} {shown}::{_message(view.block(message, 3000))}"


def _message(text: str) -> str:
    # The runner's old form `##[error]` is found anywhere in a line.
    plain = text.replace("##[", "# #[")
    return plain.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


def _line(check: CheckResult, file: str) -> str:
    """Return the last line of the submission that the traceback names, or ''."""
    name = re.escape(file.rpartition("/")[2])
    traceback = check.cause.traceback if check.cause is not None else ""
    found = re.findall(rf'File "(?:[^"\n]*/)?{name}", line (\d{{1,6}})', traceback)
    return str(found[-1]) if found else ""


def classroom(record: Record) -> str:
    """Return the reporter's document in base64, for its variable <RUNNER>_RESULTS.

    Checks that were not judged are left out.
    """
    judged = [check for check in record.checks if check.status not in UNJUDGED]
    most = sum(check.max_points for check in judged)
    sums = accumulate(check.points for check in judged)
    document = {
        "version": 1,
        "status": _status(record),
        "max_score": round(most),
        "message": f"{view.points(record.score)} of {view.points(most)} points: {headline(record)}",
        "tests": [_test(check, record, so_far, most) for check, so_far in zip(judged, sums, strict=True)],
    }
    return base64.b64encode(json.dumps(document, allow_nan=False).encode()).decode("ascii")


def _status(record: Record) -> str:
    match record.verdict:
        case "pass" | "inconclusive":
            return "pass"
        case "invalid_submission" | "grader_error" | "skipped_environment":
            return "error"
        case _:
            return "fail"


def _test(check: CheckResult, record: Record, so_far: float, most: float) -> dict[str, Any]:
    """Return a check's row. so_far: the points of the checks up to this one.

    The reporter records the sum of the scores, but its log counts tests that passed; it prints `test_code`.
    """
    of_check = f"{view.points(check.points)} of {view.points(check.max_points)} points"
    broken = check.status in ("compile_error", "crash", "timeout", "oom", "skipped_dependency")
    return {
        "name": view.line(check.id, 100),
        "status": "pass" if check.status == "pass" else "error" if broken else "fail",
        "score": check.points,
        "message": "" if check.status == "pass" else messages.full(check, record),
        "test_code": f"{view.line(check.title, 200)}: {of_check}; {view.points(so_far)} of {view.points(most)} so far",
        "filename": view.line(record.submission.path, 300),
        "line_no": 0,
        "duration": round(check.duration_s, 3),
    }


FORMAT = Format(
    "github",
    "a step summary, annotations, and the Classroom reporter's result",
    files=lambda record, _: files(record),
    printed="annotations.txt",
    appended={"GITHUB_STEP_SUMMARY": "summary.md"},
)
