"""Render PrairieLearn's results.json of an external grader (docs/exports.md#prairielearn)."""

from __future__ import annotations

import base64
from typing import Any

from grader.export import messages
from grader.export.document import json_of
from grader.export.formats import Format
from grader.record.causes import Picture
from grader.record.checks import CheckResult
from grader.record.record import Record
from grader.record.statuses import UNJUDGED
from grader.record.verdicts import given_by_hand, parts_left_out
from grader.report import by_hand, view
from grader.report.figures import picture

# The platform reads at most 1 MB.
_MOST_BYTES = 900_000
# The scorecard's page holds its colours; a picture alone needs them itself.
_STYLE = (
    "<style>text{fill:#595f69;font:11px sans-serif}rect{fill:#b3261e}.h0{fill:#f1efea;stroke:#dedad2}"
    + "".join(f".h{level}{{fill-opacity:.{15 + level * 8}}}" for level in range(1, 9))
    + "</style>"
)


def render(record: Record, *, most_bytes: int = _MOST_BYTES) -> str:
    """Return the document. If it would be too large, pictures and then long messages are left out."""
    text = ""
    for pictures, characters in ((True, 8000), (False, 8000), (False, 1000), (False, 100)):
        text = json_of(_document(record, pictures, characters))
        if len(text.encode("utf-8", "replace")) <= most_bytes:
            break
    return text


def _document(record: Record, pictures: bool, characters: int) -> dict[str, Any]:
    if record.verdict == "invalid_submission":
        return {"gradable": False, "format_errors": view.block(messages.refusal(record), characters).split("\n")}
    said = view.block(messages.said_of_all(record), characters)
    tests = [_test(check, record, pictures, characters) for check in record.checks]
    score, judged = by_hand.score(record)
    given = given_by_hand(record)
    left_out = [part for part in parts_left_out(record.checks) if not given.keys() & {"", part}]
    failed = any(check.status == "grader_error" for check in record.checks)
    if failed or not judged or left_out:
        # The attempt is not consumed. A share of the judged points would hide a whole part.
        return {"gradable": False, "message": said, "tests": tests}
    return {"gradable": True, "score": min(1.0, score / judged), "message": said, "tests": tests}


def _test(check: CheckResult, record: Record, pictures: bool, characters: int) -> dict[str, Any]:
    judged = check.status not in UNJUDGED
    test: dict[str, Any] = {
        "name": messages.name(check),
        "description": view.line(check.objective, 200),
        # Zero of zero if it was not judged. A check without points would remove the badges of all.
        "points": check.points if judged else 0,
        "max_points": check.max_points if judged else 0,
        "message": view.line(messages.short(check)) if check.status != "pass" else messages.word(check),
        "output": view.block(messages.full(check, record), characters),
    }
    drawn = check.cause.mismatch.picture if check.cause is not None and check.cause.mismatch is not None else None
    if pictures and drawn is not None and (image := _image(drawn)):
        test["images"] = [{"label": "Where the output is wrong", "url": image}]
    return test


def _image(drawn: Picture) -> str:
    svg = str(picture.draw(drawn, "mismatch"))
    if not svg:
        return ""
    start, _, rest = svg.partition(">")
    whole = f'{start} xmlns="http://www.w3.org/2000/svg">{_STYLE}{rest}'
    return "data:image/svg+xml;base64," + base64.b64encode(whole.encode()).decode("ascii")


FORMAT = Format("prairielearn", "PrairieLearn's results.json", suffix=".json", render=render)
