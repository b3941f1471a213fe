"""Render Exercism's results.json, version 3 of the test runner's interface (docs/exports.md#exercism)."""

from __future__ import annotations

from typing import Any

from grader.export import messages
from grader.export.document import json_of
from grader.export.formats import Format
from grader.record.checks import CheckResult
from grader.record.record import Record
from grader.record.statuses import UNJUDGED, Status
from grader.record.verdicts import headline
from grader.report import view

_MOST_MESSAGE, _MOST_OUTPUT = 60_000, 500

TESTS: dict[Status, str] = {
    "pass": "pass",
    "fail": "fail",
    "policy": "fail",
    "not_implemented": "fail",
    "compile_error": "error",
    "crash": "error",
    "timeout": "error",
    "oom": "error",
    "skipped_dependency": "error",
    "invalid_submission": "error",
}


def render(record: Record) -> str:
    """Return the document: tests in the order of the stub, or an error if nothing ran."""
    document: dict[str, Any]
    if record.verdict in ("invalid_submission", "grader_error", "skipped_environment", "inconclusive"):
        document = {"version": 3, "status": "error", "message": _error(record)}
    else:
        tests = _tests(record)
        status = "pass" if all(test["status"] == "pass" for test in tests) else "fail"
        document = {"version": 3, "status": status, "message": None, "tests": tests}
    return json_of(document)


def _error(record: Record) -> str:
    if record.verdict == "invalid_submission":
        return view.block(messages.refusal(record), _MOST_MESSAGE)
    if record.verdict == "grader_error":
        return view.block(
            f"The grader failed; your code is not the cause.\n{messages.said_of_all(record)}", _MOST_MESSAGE
        )
    return view.block(messages.said_of_all(record), _MOST_MESSAGE)


def _tests(record: Record) -> list[dict[str, Any]]:
    places = {part.name: place for place, part in enumerate(view.parts_of(record), 1)}
    # The top level passes where nothing judged failed, and then no test may say otherwise.
    judged = [check for check in record.checks if check.status not in UNJUDGED]
    shown = next((check for check in judged if check.status != "pass"), judged[0])
    return [_test(check, record, places[check.part], printed=check is shown) for check in judged]


def _test(check: CheckResult, record: Record, task: int, *, printed: bool) -> dict[str, Any]:
    test: dict[str, Any] = {
        "name": messages.name(check),
        "status": TESTS[check.status],
        "test_code": "\n".join(filter(None, [f"# {view.line(check.id, 100)}", messages.replay(check, record)])),
        "task_id": task,
    }
    if check.status != "pass":
        test["message"] = messages.full(check, record) or headline(record)
    # The site shows the first failure, so the printed output is there.
    if printed and record.printed.text:
        test["output"] = _printed(record)
    return test


def _printed(record: Record) -> str:
    text = view.block(record.printed.text)
    if len(text) <= _MOST_OUTPUT and not record.printed.cut_bytes:
        return text
    cut = f"… cut; {record.printed.total_bytes} bytes were printed"
    return f"{text[: _MOST_OUTPUT - len(cut) - 1]}\n{cut}"


FORMAT = Format("exercism", "Exercism's results.json", suffix=".json", render=render)
