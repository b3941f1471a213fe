"""What each platform accepts, from its published schema or its importer's rules: JSON schemas, and checks in code."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

FORMAT = {"enum": ["text", "html", "simple_format", "md", "ansi"]}
VISIBILITY = {"enum": ["hidden", "after_due_date", "after_published", "visible"]}
TEXT = {"type": "string"}
NUMBER = {"type": "number"}


def closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """An object that has these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


GRADESCOPE = closed(
    {
        "score": NUMBER,
        "execution_time": NUMBER,
        "output": TEXT,
        "output_format": FORMAT,
        "test_output_format": FORMAT,
        "test_name_format": FORMAT,
        "visibility": VISIBILITY,
        "stdout_visibility": VISIBILITY,
        "extra_data": {"type": "object"},
        "tests": {
            "type": "array",
            "items": closed(
                {
                    "score": NUMBER,
                    "max_score": NUMBER,
                    "status": {"enum": ["passed", "failed"]},
                    "name": TEXT,
                    "number": TEXT,
                    "output": TEXT,
                    "name_format": FORMAT,
                    "output_format": FORMAT,
                    "tags": {"type": "array", "items": TEXT},
                    "visibility": VISIBILITY,
                    "extra_data": {"type": "object"},
                }
            ),
        },
        "leaderboard": {
            "type": "array",
            "items": closed(
                {"name": TEXT, "value": {"type": ["number", "string"]}, "order": {"enum": ["asc", "desc"]}},
                "name",
                "value",
            ),
        },
    },
    "score",
    "tests",
)

WHOLE = {"type": "integer", "minimum": 0}
CLASSROOM50 = closed(
    {
        "schema": {"const": "classroom50/result/v1"},
        "classroom": {"type": "string", "minLength": 1},
        "assignment": {"type": "string", "minLength": 1},
        "submission": {"type": "string", "pattern": "^submit/"},
        "commit": {"type": "string", "minLength": 1},
        "release": {"type": "string", "minLength": 1},
        "review": {"type": "string", "minLength": 1},
        "datetime": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"},
        "score": WHOLE,
        "max-score": WHOLE,
        "tests": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "test-name": {"type": "string", "minLength": 1, "pattern": r"^[^\x00-\x1f]+$"},
                    "passed": {"type": "boolean"},
                    "score": WHOLE,
                    "max-score": WHOLE,
                },
                "required": ["test-name", "passed", "score", "max-score"],
            },
        },
    },
    *("schema", "classroom", "assignment", "submission", "commit", "release", "review", "datetime"),
    *("score", "max-score", "tests"),
)

GITHUB_CLASSROOM = closed(
    {
        "version": {"enum": [1, 3]},
        "status": {"enum": ["pass", "fail", "error"]},
        "max_score": WHOLE,
        "message": TEXT,
        "tests": {
            "type": "array",
            "items": closed(
                {
                    "name": TEXT,
                    "status": {"enum": ["pass", "fail", "error"]},
                    "score": NUMBER,
                    "message": TEXT,
                    "test_code": TEXT,
                    "filename": TEXT,
                    "line_no": WHOLE,
                    "duration": NUMBER,
                    "task_id": WHOLE,
                    "output": TEXT,
                },
                *("name", "status", "score", "message", "test_code", "filename", "line_no", "duration"),
            ),
        },
    },
    *("version", "status", "max_score", "tests"),
)

EXERCISM_TEST = closed(
    {
        "name": {"type": "string", "minLength": 1},
        "status": {"enum": ["pass", "fail", "error"]},
        "message": {"type": ["string", "null"]},
        "output": {"type": "string", "maxLength": 500},
        "test_code": TEXT,
        "task_id": WHOLE,
    },
    *("name", "status", "test_code"),
)
EXERCISM_TEST["if"] = {"properties": {"status": {"enum": ["fail", "error"]}}}
EXERCISM_TEST["then"] = {"required": ["message"], "properties": {"message": {"type": "string", "minLength": 1}}}
EXERCISM = closed(
    {
        "version": {"const": 3},
        "status": {"enum": ["pass", "fail", "error"]},
        "message": {"type": ["string", "null"], "maxLength": 65535},
        "tests": {"type": "array", "items": EXERCISM_TEST},
    },
    "version",
    "status",
)
EXERCISM["if"] = {"properties": {"status": {"const": "error"}}}
EXERCISM["then"] = {"required": ["message"], "properties": {"message": {"type": "string", "minLength": 1}}}
EXERCISM["else"] = {"required": ["tests"], "properties": {"message": {"type": "null"}}}

PRAIRIELEARN_TEST = closed(
    {
        "name": TEXT,
        "description": TEXT,
        "points": NUMBER,
        "max_points": NUMBER,
        "message": TEXT,
        "output": TEXT,
        "images": {
            "type": "array",
            "items": closed({"label": TEXT, "url": {"type": "string", "pattern": "^data:image/"}}, "url"),
        },
    },
    "points",
    "max_points",
)
PRAIRIELEARN = closed(
    {
        "gradable": {"type": "boolean"},
        "score": {"type": "number", "minimum": 0, "maximum": 1},
        "format_errors": {"type": ["array", "string"], "items": TEXT},
        "message": TEXT,
        "output": TEXT,
        "tests": {"type": "array", "items": PRAIRIELEARN_TEST},
    },
    "gradable",
)
PRAIRIELEARN["if"] = {"properties": {"gradable": {"const": True}}}
PRAIRIELEARN["then"] = {"required": ["score", "tests"]}

AUTOLAB = closed(
    {
        "scores": {"type": "object", "additionalProperties": NUMBER},
        "scoreboard": {"type": "array", "items": NUMBER},
    },
    "scores",
)


def strict_junit_faults(text: str) -> list[str]:
    """Every breach of the Windy Road schema."""
    root = ElementTree.fromstring(text.encode())
    faults = [f"testsuites has {name}" for name in root.attrib]
    for suite in root:
        needed = {"package", "id", "name", "timestamp", "hostname", "tests", "failures", "errors", "time"}
        faults += [f"testsuite: {name}" for name in needed ^ set(suite.attrib)]
        if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp", "")):
            faults.append("timestamp")
        tags = [child.tag for child in suite]
        if tags != ["properties", *["testcase"] * (len(tags) - 3), "system-out", "system-err"]:
            faults.append(f"order: {tags}")
        faults += [
            f"property {entry.attrib}" for entry in suite.iter("property") if set(entry.attrib) != {"name", "value"}
        ]
        for case in suite.iter("testcase"):
            if set(case.attrib) != {"name", "classname", "time"} or len(case) > 1:
                faults.append(f"testcase {case.attrib}")
            faults += [f"{child.tag} in a case" for child in case if child.tag not in ("skipped", "error", "failure")]
            faults += [
                f"{child.tag} without type" for child in case if child.tag != "skipped" and not child.get("type")
            ]
        for count, tag in (("tests", "testcase"), ("failures", "testcase/failure"), ("errors", "testcase/error")):
            if suite.get(count) != str(len(suite.findall(tag))):
                faults.append(f"{count} is {suite.get(count)}")
    return faults
