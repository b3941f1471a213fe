"""Render Autolab's last two lines of output: a presentation by stages, and the scores (docs/exports.md#autolab)."""

from __future__ import annotations

import json
import re
from typing import Any

from grader.export import messages
from grader.export.formats import Format
from grader.record.checks import CheckResult
from grader.record.record import Record
from grader.record.statuses import UNJUDGED
from grader.report import by_hand, view


def render(record: Record) -> str:
    """Return two lines of JSON. They must be the last lines that the autograder prints."""
    return f"{_line(_presentation(record))}\n{_line(_scores(record))}\n"


def _scores(record: Record) -> dict[str, Any]:
    speeds = [check.speed.ratio for check in record.checks if check.speed is not None and check.status == "pass"]
    score = round(by_hand.score(record)[0], 2)
    ratio = next((round(value, 3) for value in speeds if isinstance(value, float)), 0)
    return {
        "scores": {_plain(record.exercise.id): score},
        "scoreboard": [score, ratio],
    }


def _presentation(record: Record) -> dict[str, Any]:
    stages: dict[str, dict[str, Any]] = {}
    for part in view.parts_of(record):
        stage = {_plain(check.id): _leaf(check) for check in record.checks if check.part == part.name}
        # The name of a stage must be unique.
        title = _plain(part.title) or _plain(part.name)
        stages[title if title not in stages else f"{title} ({len(stages) + 1})"] = stage
    if record.feedback:
        stages["By hand"] = {
            _plain(one.about): _plain(f"{one.points} {one.comment}") for one in by_hand.feedback(record)
        }
    return {"_presentation": "semantic", "stages": list(stages), **stages}


def _leaf(check: CheckResult) -> Any:
    """Return whether a check passed, with advice; a text if it was not judged."""
    if check.status in UNJUDGED:
        return _plain(f"{messages.word(check)}, {view.why(check)}")
    if check.status == "pass":
        return {"passed": True}
    return {"passed": False, "hint": _plain(messages.short(check))}


def _plain(text: str) -> str:
    """Return text with a space before each colon.

    Before it parses the line, Autolab takes a word directly before a colon for a key.
    """
    return re.sub(r"(?<! ):", " :", view.line(text, 300))


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


FORMAT = Format("autolab", "Autolab's last two lines of output", suffix=".txt", render=render)
