"""Sum a record up: the worst status, the points that count, what was left out, and a headline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from grader.phrases import all_of, counted, two_decimals
from grader.record.checks import CheckResult
from grader.record.record import Record
from grader.record.statuses import UNJUDGED, Status
from grader.text import one_line


def verdict_of(checks: tuple[CheckResult, ...]) -> Status:
    """Return the status of a whole grading: the worst of its checks, and no pass if a whole part was left out."""
    worst = worst_of(checks)
    return "skipped_environment" if worst == "pass" and parts_left_out(checks) else worst


def worst_of(checks: Iterable[CheckResult]) -> Status:
    """Return the worst status among some checks, unjudged ones aside."""
    statuses: set[Status] = {check.status for check in checks}
    order: tuple[Status, ...] = (
        "invalid_submission",
        "timeout",
        "oom",
        "crash",
        "compile_error",
        "policy",
        "fail",
        "grader_error",
        "not_implemented",
        "skipped_dependency",
        "pass",
        "inconclusive",
        "skipped_environment",
    )
    return next((status for status in order if status in statuses), "skipped_environment")


def parts_left_out(checks: Iterable[CheckResult]) -> dict[str, str]:
    """Return the parts without any judged check on this machine, each with the reason.

    A record does not distinguish a missing package from a missing GPU: both leave a part out alike.
    """
    parts: dict[str, list[CheckResult]] = {}
    for check in checks:
        parts.setdefault(check.part, []).append(check)
    left_out = {name: own for name, own in parts.items() if all(one.status == "skipped_environment" for one in own)}
    return {name: own[0].reason for name, own in left_out.items()}


def left_out_in_words(checks: Iterable[CheckResult]) -> str:
    """Return which parts were left out and why: "nothing of gemm was judged (…)"; '' if no part was."""
    by_reason: dict[str, list[str]] = {}
    for part, reason in parts_left_out(checks).items():
        by_reason.setdefault(one_line(reason, 200), []).append(one_line(part, 60))
    said = [(f"nothing of {all_of(parts)} was judged", reason) for reason, parts in by_reason.items()]
    return "; ".join(f"{text} ({reason})" if reason else text for text, reason in said)


def points_that_count(checks: Iterable[CheckResult], given: Mapping[str, float]) -> tuple[float, float]:
    """Return the points of the checks, and of how many, with points given by hand instead: by part, '' for all."""
    listed = list(checks)
    most = sum(check.max_points for check in listed)
    if "" in given:
        return given[""], most
    own = [check for check in listed if check.part not in given]
    handed = [check for check in listed if check.part in given]
    judged = sum(check.max_points for check in (*handed, *(one for one in own if one.status not in UNJUDGED)))
    earned = sum(check.points for check in own)
    return earned + sum(given[part] for part in dict.fromkeys(check.part for check in handed)), judged


def given_by_hand(record: Record) -> dict[str, float]:
    """Return the points that a person gave, by part; '' for the whole exercise."""
    return {one.part: one.points for one in record.feedback if one.points is not None}


def headline(record: Record) -> str:
    """Return one sentence on what was judged and what was not; it never claims more than was run."""
    passed = sum(check.status == "pass" for check in record.checks)
    in_part = sum(check.passed_in_part for check in record.checks)
    unjudged = [check for check in record.checks if check.status in UNJUDGED]
    judged = len(record.checks) - len(unjudged)
    text = f"{two_decimals(record.score)} of {two_decimals(record.judged_score)} points that could be judged here"
    text += f" ({passed} of {judged} checks passed{f', {in_part} of them in part' if in_part else ''})"
    if unjudged:
        missing = record.max_score - record.judged_score
        points = "1 more point is" if missing == 1 else f"{two_decimals(missing)} more points are"
        text += f"; {points} open: {counted(len(unjudged), 'check was', 'checks were')} not judged"
    # If nothing was judged, the checks say why.
    if judged and (left_out := left_out_in_words(record.checks)):
        text += f"; {left_out}"
    return text + "."
