"""Render JUnit XML in two dialects: the rich one of grader.report.junit, and the strict Windy Road schema.

See docs/exports.md#junit.
"""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from grader.export import messages
from grader.export.formats import Format
from grader.record.checks import CheckResult
from grader.record.record import Record
from grader.report import by_hand, junit, view
from grader.text import disarmed_markup

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")

rich = junit.render


def strict(record: Record) -> str:
    """Return one suite with the required fields of the schema, and no others."""
    counts = Counter(junit.CHILDREN[check.status] for check in record.checks)
    root = Element("testsuites")
    stamp = _STAMP.match(record.graded_at)
    suite = SubElement(
        root,
        "testsuite",
        {
            "package": "grade",
            "id": "0",
            "name": _text(record.exercise.id, 100),
            "timestamp": stamp[0] if stamp else "1970-01-01T00:00:00",
            # The schema requires a name, and a record holds none.
            "hostname": "localhost",
            "tests": str(len(record.checks)),
            "failures": str(counts["failure"]),
            "errors": str(counts["error"]),
            "time": f"{record.duration_s:.3f}",
        },
    )
    properties = SubElement(suite, "properties")
    values = {"score": record.score, "judged_score": record.judged_score, "max_score": record.max_score}
    for name, value in values.items():
        SubElement(properties, "property", {"name": name, "value": view.points(value)})
    for place, line in enumerate(by_hand.lines(record), 1):
        SubElement(properties, "property", {"name": f"feedback_{place}", "value": _text(line)})
    for name, said in (("seed", record.seed), ("gpu", record.env.gpu or "none"), ("mode", record.env.mode)):
        SubElement(properties, "property", {"name": name, "value": _text(said) or "unknown"})
    for check in record.checks:
        _case(suite, record, check)
    SubElement(suite, "system-out").text = ""
    SubElement(suite, "system-err").text = ""
    ElementTree.indent(root, " ")
    document = disarmed_markup(ElementTree.tostring(root, encoding="unicode"))
    return f"<?xml version='1.0' encoding='UTF-8'?>\n{document}\n"


def _case(suite: Element, record: Record, check: CheckResult) -> None:
    name, owner = _text(check.id, 200), _text(f"grade.{record.exercise.name}", 200)
    case = SubElement(suite, "testcase", {"name": name, "classname": owner, "time": f"{check.duration_s:.3f}"})
    kind = junit.CHILDREN[check.status]
    if kind == "skipped":
        SubElement(case, kind)
    elif kind is not None:
        child = SubElement(case, kind, {"type": check.status, "message": _text(messages.short(check))})
        child.text = _FORBIDDEN.sub("\ufffd", messages.full(check, record))


def _text(text: str, most: int = 1000) -> str:
    return _FORBIDDEN.sub("\ufffd", view.line(text, most))


FORMAT = Format(
    "junit",
    "JUnit XML",
    suffix=".xml",
    render=rich,
    with_options=lambda options: strict if options.strict else rich,
)
