"""Print the grader's own lines on a terminal or in a log; names in them cannot do harm there."""

from __future__ import annotations

from typing import TextIO

from grader.text import clean, disarmed, in_ascii


def say(text: str, stream: TextIO) -> None:
    """Print it at once. A name that holds a line end and a command to a CI service stays a name."""
    said = disarmed(clean(text))
    print(said if knows_unicode(stream) else in_ascii(said), file=stream, flush=True)


def knows_unicode(stream: object) -> bool:
    """Return whether a stream takes every character. A stream without an encoding is a text in memory."""
    return (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "").startswith("utf")
