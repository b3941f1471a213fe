"""Texts about a check that several formats share."""

from __future__ import annotations

from grader.record.checks import CheckResult
from grader.record.record import Record
from grader.record.statuses import UNJUDGED
from grader.record.verdicts import headline
from grader.report import by_hand, view
from grader.report.status import LOOKS


def word(check: CheckResult) -> str:
    """Return the status as a word: "failed", "passed, 5.8 of 7 points"."""
    said = LOOKS[check.status].word
    points = f"{view.points(check.points)} of {view.points(check.max_points)} points"
    return f"{said}, {points}" if check.passed_in_part else said


def name(check: CheckResult) -> str:
    """Return a check's name where all parts stand in one list: "vector_add: Any length"."""
    title = view.line(check.title, 200) or view.line(check.id, 200)
    return f"{view.line(check.part, 60)}: {title}" if check.part else title


def short(check: CheckResult) -> str:
    """Return one line on a check that did not pass: the cause's title, or the reason."""
    return view.line(check.cause.title) if check.cause is not None else view.why(check) or word(check)


def full(check: CheckResult, record: Record) -> str:
    """Return all details of a check, in lines; of one that passed, its measurements."""
    if check.status == "pass":
        return view.measured(check)
    return f"{word(check)}: {view.details(check, record)}"


def replay(check: CheckResult, record: Record) -> str:
    """Return the command that runs the failing case again, or ''."""
    return view.replay_command(check.counterexample, record) if check.counterexample is not None else ""


def said_of_all(record: Record) -> str:
    """Return the headline, a person's feedback, then the reasons why checks were not judged, one a line."""
    reasons: dict[str, int] = {}
    for check in record.checks:
        if check.status in UNJUDGED:
            reason = f"{LOOKS[check.status].word}: {view.why(check)}" if view.why(check) else LOOKS[check.status].word
            reasons[reason] = reasons.get(reason, 0) + 1
    return "\n".join(
        [headline(record), *by_hand.lines(record), *(f"{count} × {reason}" for reason, count in reasons.items())]
    )


def refusal(record: Record) -> str:
    """Return why a file could not be judged at all: the reasons of its checks, each once."""
    reasons = dict.fromkeys(view.why(check) for check in record.checks if check.status == "invalid_submission")
    return "\n".join(reason for reason in reasons if reason) or "The file cannot be judged."
