"""Render a record as JUnit XML in pytest's dialect, which CI services read."""

from __future__ import annotations

from collections import Counter
from typing import Literal
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from grader.record.checks import CheckResult
from grader.record.record import Record
from grader.record.statuses import Status
from grader.record.verdicts import given_by_hand
from grader.report import by_hand, view
from grader.report.status import LOOKS
from grader.text import disarmed_markup

Child = Literal["failure", "error", "skipped"]

# failure: the check said no; error: something broke; skipped: nobody knows.
CHILDREN: dict[Status, Child | None] = {
    "pass": None,
    "fail": "failure",
    "policy": "failure",
    "not_implemented": "failure",
    "invalid_submission": "failure",
    "compile_error": "error",
    "crash": "error",
    "timeout": "error",
    "oom": "error",
    "grader_error": "error",
    "skipped_dependency": "skipped",
    "skipped_environment": "skipped",
    "inconclusive": "skipped",
}


def render(record: Record) -> str:
    """Return one suite with one case per check. Attributes count the suite's cases."""
    counts = Counter(CHILDREN[check.status] for check in record.checks)
    totals = {
        "tests": str(len(record.checks)),
        "failures": str(counts["failure"]),
        "errors": str(counts["error"]),
        "skipped": str(counts["skipped"]),
        "time": _seconds(record.duration_s),
    }
    root = Element("testsuites", {"name": "grade", **totals})
    suite = SubElement(
        root,
        "testsuite",
        {
            "name": _attribute(record.exercise.id),
            **totals,
            "timestamp": _attribute(record.graded_at).removesuffix("Z"),
            "file": _attribute(record.submission.path),
        },
    )
    _properties(
        suite,
        {
            "seed": record.seed,
            "gpu": record.env.gpu or "none",
            "mode": record.env.mode,
            "score": view.points(record.score),
            "judged_score": view.points(record.judged_score),
            "max_score": view.points(record.max_score),
            **({"score_by_hand": view.points(by_hand.score(record)[0])} if given_by_hand(record) else {}),
            **{f"feedback_{place}": line for place, line in enumerate(by_hand.lines(record), 1)},
        },
    )
    for check in record.checks:
        _case(suite, record, check)
    if record.printed.text:
        SubElement(suite, "system-out").text = _printed(record)
    ElementTree.indent(root, " ")
    document = disarmed_markup(ElementTree.tostring(root, encoding="unicode"))
    return f"<?xml version='1.0' encoding='UTF-8'?>\n{document}\n"


def _case(suite: Element, record: Record, check: CheckResult) -> None:
    case = SubElement(
        suite,
        "testcase",
        {
            "name": _attribute(check.id),
            "classname": _attribute(f"grade.{record.exercise.name}"),
            "time": _seconds(check.duration_s),
        },
    )
    points = {"points": view.points(check.points), "max_points": view.points(check.max_points)}
    _properties(case, {**points, **_speed(check)})
    kind = CHILDREN[check.status]
    if kind is None:
        return
    message = check.cause.title if check.cause else view.why(check)
    word = LOOKS[check.status].word
    if kind == "skipped":
        SubElement(case, kind, {"message": _attribute(f"{word}: {view.why(check)}" if check.reason else word)})
    else:
        child = SubElement(case, kind, {"type": check.status, "message": _attribute(message or word)})
        child.text = view.details(check, record)


def _speed(check: CheckResult) -> dict[str, str]:
    """Yield a speed check's ratio, its 95 % interval, and the baseline."""
    if check.speed is None:
        return {}
    speed = check.speed
    return {
        "speed_baseline": speed.baseline,
        "speed_ratio": view.number(speed.ratio),
        "speed_ratio_low": view.number(speed.ratio_low),
        "speed_ratio_high": view.number(speed.ratio_high),
        "speed_full_marks": view.number(speed.full),
    }


def _printed(record: Record) -> str:
    text = view.block(record.printed.text, 20_000)
    cut = record.printed.cut_bytes
    return f"{text}\n({cut} of {record.printed.total_bytes} bytes were cut from the middle)" if cut else text


def _properties(parent: Element, values: dict[str, str]) -> None:
    properties = SubElement(parent, "properties")
    for name, value in values.items():
        SubElement(properties, "property", {"name": name, "value": _attribute(value)})


def _seconds(value: float) -> str:
    return f"{value:.3f}"


def _attribute(text: str) -> str:
    return view.line(text, 1000)
