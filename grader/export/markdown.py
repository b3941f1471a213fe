"""Render a record as Markdown that a hostile submission cannot change: GitHub's summary, Classroom 50's release."""

from __future__ import annotations

import re
from collections.abc import Iterator

from grader.export import messages
from grader.phrases import counted
from grader.record.checks import CheckResult
from grader.record.record import Record
from grader.record.verdicts import headline
from grader.report import view
from grader.report.figures.picture import text_lines
from grader.report.status import look_of

_ROWS, _COLUMNS = 24, 96
# All characters with a meaning in Markdown, in GitHub's mentions and issue numbers, or in HTML.
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~@:.-])")


def escape(text: str, most: int = 400) -> str:
    """Return text escaped for Markdown, on one line, in a table's cell or elsewhere."""
    plain = view.line(text, most).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", plain)


def summary(record: Record, *, most_bytes: int = 900_000) -> str:
    """Return the headline, a table of checks, and the failures.

    It is cut at about `most_bytes` bytes, and says so.
    """
    parts = [_head(record), _table(record)]
    left = most_bytes - sum(len(part.encode()) for part in parts)
    failures = [_failure(check, record) for check in record.checks if check.status in view.LEARNERS]
    for place, one in enumerate(failures):
        left -= len(one.encode()) + 200
        if left < 0:
            more = counted(len(failures) - place, "more failure is", "more failures are")
            parts.append(f"{more} left out here; the record holds everything.\n")
            break
        parts.append(one)
    return "\n".join(parts)


def _head(record: Record) -> str:
    lines = [f"### {escape(record.exercise.id, 60)} {escape(record.exercise.title, 120)}", "", escape(headline(record))]
    open_points = messages.said_of_all(record).split("\n")[1:]
    return "\n".join([*lines, "", *(f"- {escape(reason)}" for reason in open_points), ""])


def _table(record: Record) -> str:
    rows = [
        f"| {look_of(check).symbol} {escape(messages.word(check))} | {escape(messages.name(check), 300)} | "
        f"{escape(view.check_points(check))} |"
        for check in record.checks
    ]
    return "\n".join(["| | check | points |", "| --- | --- | ---: |", *rows, ""])


def _picture(check: CheckResult) -> Iterator[str]:
    """Yield the picture of the wrong elements as lines: GitHub shows neither SVG nor images in data: URLs."""
    if check.cause is not None and check.cause.mismatch is not None and check.cause.mismatch.picture is not None:
        pictured, legend = text_lines(check.cause.mismatch.picture, rows=_ROWS, columns=_COLUMNS)
        yield from ("", *pictured, legend)


def _failure(check: CheckResult, record: Record) -> str:
    # Between fences nothing is interpreted; the fence is longer than any run of backticks inside.
    text = "\n".join([view.block(messages.full(check, record), 8000), *_picture(check)])
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    name = escape(messages.name(check), 300)
    return f"<details><summary>{name}</summary>\n\n{fence}text\n{text}\n{fence}\n\n</details>\n"
