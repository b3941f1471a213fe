"""The symbol, word and tone of each status: one table for the terminal and the scorecard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from grader.record.checks import CheckResult
from grader.record.statuses import Status

# good: earned; part: earned in part; bad: lost; todo: nothing to judge yet; quiet: could not be judged; ours: the
# grader's own fault.
Tone = Literal["good", "part", "bad", "todo", "quiet", "ours"]


@dataclass(frozen=True)
class StatusMark:
    """The marks of a status: a symbol, the same in ASCII, a word that needs no colour, and a tone."""

    symbol: str
    ascii: str
    word: str
    tone: Tone


LOOKS: dict[Status, StatusMark] = {
    "pass": StatusMark("✓", "+", "passed", "good"),
    "fail": StatusMark("✗", "x", "failed", "bad"),
    "not_implemented": StatusMark("○", "o", "not implemented", "todo"),
    "compile_error": StatusMark("✗", "x", "compile error", "bad"),
    "crash": StatusMark("✗", "x", "crashed", "bad"),
    "timeout": StatusMark("✗", "x", "timed out", "bad"),
    "oom": StatusMark("✗", "x", "out of memory", "bad"),
    "policy": StatusMark("✗", "x", "rule broken", "bad"),
    "invalid_submission": StatusMark("✗", "x", "invalid file", "bad"),
    "skipped_dependency": StatusMark("↷", ">", "not reached", "todo"),
    "skipped_environment": StatusMark("–", "-", "not run here", "quiet"),
    "inconclusive": StatusMark("≈", "~", "inconclusive", "quiet"),
    "grader_error": StatusMark("!", "!", "grader error", "ours"),
}

# Points of a speed band are linear: a check can pass with some of them, and must not look as if it had all.
PARTLY = StatusMark("◐", "/", "partly passed", "part")


def look_of(check: CheckResult) -> StatusMark:
    """Return a check's mark: that of its status, or "passed in part"."""
    return PARTLY if check.passed_in_part else LOOKS[check.status]
