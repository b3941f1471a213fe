"""Text that nobody vouches for, made harmless: for a terminal, for the log of a CI service, and as JSON."""

from __future__ import annotations

import json
import re
import threading

# C0 and C1 controls except newline and tab, line and paragraph separators, what turns the direction of writing or is
# never seen, lone surrogates, and what is no character.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_TERMINAL_ESCAPE = re.compile("\x1b(?:\\[[0-9;?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[@-_])")

_STYLE = "\x1b\\[[0-9;]*m"
# GitHub's runner leaves out leading blanks, whatever Unicode calls so, before it looks for "::error …"; its older form,
# "##[error]", it finds anywhere in a line.
_COMMAND_AT_START = re.compile(rf"(?m)^((?:[^\S\n]|{_STYLE})*):(?=(?:{_STYLE})*:)")
_COMMAND_ANYWHERE = "##["


# In CPython before 3.11.8 and 3.12.1, threads that call ast.parse at once may end in a SystemError: they count their
# depth in one place (python/cpython#106905). Re-entrant: a finalizer that parses runs on whichever thread it meets.
ONE_PARSE_AT_A_TIME = threading.RLock()


def clean(text: str, most: int = 4000) -> str:
    """Text without terminal escapes and control characters; beyond `most` its middle is cut, and that is said."""
    # Most texts are printable throughout and have nothing to replace; a class has millions of them.
    if not text.isprintable():
        text = _UNPRINTABLE.sub("\ufffd", _TERMINAL_ESCAPE.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}\n… {len(text) - most} characters cut …\n{text[-most // 2 :]}"


_SAID_IN_ASCII = str.maketrans(
    {"…": "...", "—": "-", "–": "-", "×": "x", "·": "*", "→": "->", "≤": "<=", "≥": ">=", "µ": "u", "°": ""}
    | {"“": '"', "”": '"', "’": "'", "█": "#", "░": "-"}
)


def in_ascii(text: str) -> str:
    """Text for a terminal that knows no other letters; what has no likeness there is written as its code."""
    return text.translate(_SAID_IN_ASCII).encode("ascii", "backslashreplace").decode("ascii")


def disarmed(text: str, *, colon: str = ": ", bracket: str = " [") -> str:
    """Text of which no line is a command to a CI service whose log it is printed in: what begins one is written as
    `colon` or `bracket`, which in a markup language may be a way to write the very same.
    """
    text = _COMMAND_AT_START.sub(lambda found: found[1] + colon, text)
    return text.replace(_COMMAND_ANYWHERE, f"##{bracket}")


def disarmed_markup(text: str) -> str:
    """XML or HTML that means the same, and of which no line is a command."""
    return disarmed(text, colon="&#58;", bracket="&#91;")


def as_json(value: object) -> str:
    """A JSON document that reads back as it was, can be printed anywhere, and ends in a newline. Raises ValueError if a
    number is not finite.
    """
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    return disarmed(_UNPRINTABLE.sub(lambda found: json.dumps(found[0])[1:-1], text), bracket="\\u005b") + "\n"
