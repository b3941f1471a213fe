"""Render what `grade check` found, for a CI service: JUnit XML, and Markdown for a step's summary. Writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from grader.export import markdown
from grader.report import view
from grader.soundness.findings import Gate, GateLine
from grader.text import disarmed_markup

_SIGNS = {True: "✓", False: "✗", None: "–"}


def junit(gates: Mapping[str, Gate]) -> str:
    """Return one suite for each exercise and one case for each finding; unjudged ones are skipped."""
    root = Element("testsuites", {"name": "grade check"})
    for name, gate in gates.items():
        suite = SubElement(root, "testsuite", {"name": view.line(name, 60), **_counts(gate)})
        for finding in gate.findings:
            _case(suite, name, finding)
    ElementTree.indent(root, " ")
    document = disarmed_markup(ElementTree.tostring(root, encoding="unicode"))
    return f"<?xml version='1.0' encoding='UTF-8'?>\n{document}\n"


def _counts(gate: Gate) -> dict[str, str]:
    held = [finding.holds for finding in gate.findings]
    return {"tests": str(len(held)), "failures": str(held.count(False)), "skipped": str(held.count(None))}


def _case(suite: Element, exercise: str, finding: GateLine) -> None:
    names = {"name": view.line(finding.subject, 200), "classname": view.line(f"grade.check.{exercise}", 100)}
    case = SubElement(suite, "testcase", names)
    if finding.holds is not True:
        child = "failure" if finding.holds is False else "skipped"
        SubElement(case, child, {"message": view.line(finding.outcome, 1000)})


def summary(gates: Mapping[str, Gate]) -> str:
    """Return a table with a line for each exercise, then every failed finding."""
    rows = [
        f"| {_SIGNS[gate.holds]} {markdown.escape(name, 60)} | {len(gate.findings)} | {len(_broken(gate))} | "
        f"{sum(finding.holds is None for finding in gate.findings)} |"
        for name, gate in gates.items()
    ]
    broken = [
        f"- **{markdown.escape(f'{name}: {finding.subject}', 200)}**: {markdown.escape(finding.outcome, 1000)}"
        for name, gate in gates.items()
        for finding in _broken(gate)
    ]
    head = ["### grade check", "", "| exercise | tried | wrong | not judged here |", "| --- | ---: | ---: | ---: |"]
    return "\n".join([*head, *rows, "", *broken, *([""] if broken else [])])


def _broken(gate: Gate) -> list[GateLine]:
    return [finding for finding in gate.findings if finding.holds is False]
