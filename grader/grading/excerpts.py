"""Put the submission's own lines beside the causes that name them. Takes the results and the text; runs nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from grader.definitions import keeping_line, repeated, spans_of
from grader.phrases import cut, lines_named
from grader.record.causes import Cause, Excerpt
from grader.record.checks import CheckResult
from grader.syntax import lines_in
from grader.text import clean

# Lines before and after the named one: a mask and its use stand within this distance.
_NEIGHBOURS = 3
_MOST_LETTERS = 200
_MOST_REPEATED = 2
# The grader's sentences name a line of the submission in these forms: "Line 19 (add_kernel), …", "… (line 6): …".
_NAMED = re.compile(r"\b[Ll]ines? (\d{1,6})\b")


# Functions that write an output. Atomic operations do too.
_STORES = re.compile(r"\b(?:store|atomic_[a-z]+)\s*\(")
_WHERE_STORED = "The line that stores the result"
# Kinds of causes that lie in memory of an earlier call.
_REMEMBERED = frozenset({"remembered_input", "remembered_result", "reused_output", "stale_result"})
_WHERE_KEPT = "A line that keeps something for later calls"


def with_excerpt(check: CheckResult, source: str) -> CheckResult:
    """Return the check with the line that its cause names, and the neighbours of that line.

    source: the submission's text. If no line is named, the line is the one that keeps something for later calls, for a
    cause of that kind. For wrong values it is the line that stores them, if the part has only one. Without
    such a line the check stays as it is.
    """
    if check.cause is None:
        return check
    lines = lines_in(source)
    line, words = _named_line(check.cause, len(lines)), ""
    if line is None and _kind_of(check.cause) in _REMEMBERED:
        line, words = keeping_line(source, check.part), _WHERE_KEPT
    if line is None and check.cause.mismatch is not None:
        line, words = _only_store(source, lines, check.part), _WHERE_STORED
    if line is None:
        return check
    first = max(1, line - _NEIGHBOURS)
    shown = tuple(clean(cut(text, _MOST_LETTERS)) for text in lines[first - 1 : line + _NEIGHBOURS])
    return replace(check, cause=replace(check.cause, excerpt=Excerpt(line, first, shown, words)))


def with_repeats(check: CheckResult, source: str) -> CheckResult:
    """Return the check with help on functions that its part reaches and that the file defines more than once.

    source: the submission's text. Python keeps the last definition, and the learner may look at another one.
    """
    if check.cause is None:
        return check
    told = [
        f"`{clean(name, 80)}` is defined at {lines_named(lines)}: Python keeps the last one."
        for name, lines in sorted(repeated(source, check.part).items())[:_MOST_REPEATED]
    ]
    if not told:
        return check
    return replace(check, cause=replace(check.cause, help=" ".join([*told, check.cause.help]).strip()))


def _kind_of(cause: Cause) -> str:
    """Return the kind behind the card's title: that of the likeliest suspect, if there is one."""
    return cause.suspects[0].kind if cause.suspects else cause.kind


def _only_store(source: str, lines: Sequence[str], part: str) -> int | None:
    spans = spans_of(source, part)
    stores = [line for first, last in spans for line in range(first, last + 1) if _STORES.search(lines[line - 1])]
    return stores[0] if len(stores) == 1 else None


def _named_line(cause: Cause, count: int) -> int | None:
    """Return the line that a cause names. Of wrong values, the one to change comes before what the call was."""
    seen = [suspect.evidence for suspect in cause.suspects[:1]]
    texts = [cause.rationale, *seen] if cause.mismatch is None else [cause.help, *seen, cause.rationale]
    named = (int(found[1]) for text in texts for found in _NAMED.finditer(text))
    return next((line for line in named if 1 <= line <= count), None)
