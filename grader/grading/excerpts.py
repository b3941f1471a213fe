"""Put the submission's own lines beside the causes that name them. Takes the results and the text; runs nothing."""

from __future__ import annotations

import re
from dataclasses import replace

from grader.record import Cause, CheckResult, Excerpt, clean

# Lines before and after the named one: a mask and its use stand within this distance.
_NEIGHBOURS = 3
_MOST_LETTERS = 200
# Every sentence of the grader names a line of the submission in this form: "Line 19 (add_kernel), …", "… (line 6): …".
_NAMED = re.compile(r"\b[Ll]ine (\d{1,6})\b")


def with_excerpt(check: CheckResult, lines: tuple[str, ...]) -> CheckResult:
    """Return the check with the line that its cause names, and the neighbours of that line.

    lines: the submission's text. A cause that names no line of it stays as it is.
    """
    if check.cause is None or (line := _named_line(check.cause, len(lines))) is None:
        return check
    first = max(1, line - _NEIGHBOURS)
    shown = tuple(clean(_cut(text)) for text in lines[first - 1 : line + _NEIGHBOURS])
    return replace(check, cause=replace(check.cause, excerpt=Excerpt(line, first, shown)))


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}…"


def _named_line(cause: Cause, count: int) -> int | None:
    texts = (cause.rationale, *(suspect.evidence for suspect in cause.suspects[:1]))
    named = (int(found[1]) for text in texts for found in _NAMED.finditer(text))
    return next((line for line in named if 1 <= line <= count), None)
