"""Render Gradescope's results.json (docs/exports.md#gradescope). It reads the file of --metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from grader.errors import UsageError
from grader.export import messages
from grader.export.document import json_of
from grader.export.formats import ExportOptions, Format, Render
from grader.record.checks import CheckResult
from grader.record.record import Record
from grader.record.statuses import UNJUDGED
from grader.record.verdicts import given_by_hand
from grader.report import by_hand, view

# Names our part of `extra_data`, which comes back with the next submission.
_OURS = "grade"


def render(record: Record, metadata: object = None) -> str:
    """Return the document.

    metadata: the parsed submission_metadata.json. A check that could not be judged this time keeps its points from an
    earlier grading of the very same file.
    """
    earlier_points = _earlier_points(record, metadata)
    given = given_by_hand(record)
    parts = {check.id: check.part for check in record.checks}
    kept = (points for name, points in earlier_points.items() if not given.keys() & {"", parts[name]})
    score = by_hand.score(record)[0] + sum(kept)
    document: dict[str, Any] = {
        "score": round(score, 2),
        "execution_time": round(record.duration_s, 3),
        "output": messages.said_of_all(record),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [_invalid(record)] if record.verdict == "invalid_submission" else list(_tests(record, earlier_points)),
        "leaderboard": list(_leaderboard(record)),
        "extra_data": {_OURS: _extra(record, earlier_points, metadata)},
    }
    return json_of(document)


def _tests(record: Record, earlier_points: Mapping[str, float]) -> Iterator[dict[str, Any]]:
    number = view.line(record.exercise.id, 60).removeprefix("ex_")
    for place, check in enumerate(record.checks, 1):
        test: dict[str, Any] = {
            "number": f"{number}.{place}",
            "name": messages.name(check),
            **_points(check, earlier_points),
        }
        output = messages.full(check, record)
        if check.id in earlier_points:
            output = f"Kept from an earlier grading of this file; this time: {output}"
        tags = [view.line(tag, 100) for tag in (check.part, check.objective) if tag]
        yield {**test, "output": output, "tags": tags, "visibility": "visible"}


def _points(check: CheckResult, earlier_points: Mapping[str, float]) -> dict[str, Any]:
    """Return score and status. A check that was not judged has neither; its row only informs."""
    if check.id in earlier_points:
        return {"score": earlier_points[check.id], "max_score": check.max_points}
    if check.status in UNJUDGED:
        return {}
    status = "passed" if check.status == "pass" else "failed"
    return {"score": check.points, "max_score": check.max_points, "status": status}


def _invalid(record: Record) -> dict[str, Any]:
    """Return the one row of a file that does not load."""
    score = {"score": 0, "max_score": record.judged_score, "status": "failed"}
    return {"name": "The file can be graded", **score, "output": messages.refusal(record), "visibility": "visible"}


def _leaderboard(record: Record) -> Iterator[dict[str, Any]]:
    for check in record.checks:
        if check.speed is not None and check.status == "pass" and isinstance(check.speed.ratio, float):
            yield {"name": messages.name(check), "value": round(check.speed.ratio, 3)}


def _extra(record: Record, earlier_points: Mapping[str, float], metadata: object) -> dict[str, Any]:
    """Return the data for the next grading: whether this one counts as an attempt, its file, and its points."""
    points = {check.id: check.points for check in record.checks if check.status not in UNJUDGED}
    return {
        "graded": record.verdict not in ("invalid_submission", *UNJUDGED),
        "exercise": view.line(record.exercise.id, 60),
        "spec_sha256": view.line(record.exercise.spec_sha256, 64),
        "sha256": view.line(record.submission.sha256, 64),
        "submitted_at": view.line(str(_get(metadata, "created_at") or record.submitted_at), 60),
        "graded_at": view.line(record.graded_at, 60),
        "seed": view.line(record.seed, 60),
        "points": {**points, **earlier_points},
    }


def _earlier_points(record: Record, metadata: object) -> dict[str, float]:
    """Return points of an earlier grading by check, for checks that could not be judged this time.

    It takes the latest grading of the same file against the same exercise, and ignores data in any other form.
    """
    unjudged = {check.id: check.max_points for check in record.checks if check.status in UNJUDGED}
    previous = _get(metadata, "previous_submissions")
    found: dict[str, float] = {}
    for submission in previous if isinstance(previous, list) else []:
        ours = _get(_get(_get(submission, "results"), "extra_data"), _OURS)
        same = (record.submission.sha256, record.exercise.spec_sha256)
        points = _get(ours, "points")
        if (_get(ours, "sha256"), _get(ours, "spec_sha256")) == same and isinstance(points, dict):
            found |= {name: value for name, value in points.items() if _is_share(value, unjudged.get(name))}
    return found


def _is_share(value: object, most: float | None) -> bool:
    return most is not None and isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most


def _get(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None


def _with_options(options: ExportOptions) -> Render:
    if options.metadata is None:
        return render
    metadata = _read_metadata(Path(options.metadata))
    return lambda record: render(record, metadata)


def _read_metadata(path: Path) -> object:
    """Read the platform's description of the submission. Its shape may change, so it is read leniently."""
    try:
        return json.loads(path.read_bytes())
    except OSError as refused:
        raise UsageError(f"--metadata must name a readable file, got {path}: {refused.strerror}") from None
    except (ValueError, RecursionError) as broken:
        raise UsageError(f"--metadata must name a JSON document, got {path}: {str(broken)[:120]}") from None


FORMAT = Format("gradescope", "Gradescope's results.json", suffix=".json", render=render, with_options=_with_options)
