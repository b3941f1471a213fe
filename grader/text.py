"""Make untrusted text harmless: for a terminal, for the log of a CI service, and in JSON. Name a text by its hash."""

from __future__ import annotations

import hashlib
import json
import re

# Joiners of letters. They have no width, and names of some scripts hold them: a text reads well without them.
_JOINERS = "\u200c\u200d"
# C0 and C1 controls except newline and tab, line and paragraph separators, characters that change the direction of
# writing or are invisible, lone surrogates, and noncharacters.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ufffe\uffff\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)
_REMOVED = str.maketrans(dict.fromkeys(_JOINERS))
_TERMINAL_ESCAPE = re.compile("\x1b(?:\\[[0-9;?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[@-_])")

_STYLE = "\x1b\\[[0-9;]*m"
# GitHub's runner skips leading blanks of any kind in Unicode before it looks for "::error …"; it finds the older form,
# "##[error]", anywhere in a line.
_COMMAND_AT_START = re.compile(rf"(?m)^((?:[^\S\n]|{_STYLE})*):(?=(?:{_STYLE})*:)")
_COMMAND_ANYWHERE = "##["


def clean(text: str, most: int = 4000) -> str:
    """Return text without terminal escapes; � stands for control characters and for invisible ones.

    Joiners of letters are removed. Beyond `most` characters its middle is cut, and a note says so.
    """
    # Most texts are printable throughout and need no replacement; a class has millions of them.
    if not text.isprintable():
        text = text.translate(_REMOVED).replace("\r\n", "\n").replace("\r", "\n")
        text = _UNPRINTABLE.sub("\ufffd", _TERMINAL_ESCAPE.sub("", text))
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}\n… {len(text) - most} characters cut …\n{text[-most // 2 :]}"


def one_line(text: str, most: int = 4000) -> str:
    """Return clean text as one line. A cut is marked."""
    # Most texts are one printable line, and reports ask for every word.
    if len(text) <= most and text.isprintable() and "  " not in text and text == text.strip(" "):
        return text
    return " ".join(clean(text, most).split())


_SAID_IN_ASCII = str.maketrans(
    {"…": "...", "—": "-", "–": "-", "×": "x", "·": "*", "→": "->", "≤": "<=", "≥": ">=", "µ": "u", "°": ""}
    | {"“": '"', "”": '"', "’": "'", "█": "#", "░": "-"}
)


def in_ascii(text: str) -> str:
    """Return text for a terminal that shows only ASCII; other characters get a likeness, or their code."""
    return text.translate(_SAID_IN_ASCII).encode("ascii", "backslashreplace").decode("ascii")


def disarmed(text: str, *, colon: str = ": ", bracket: str = " [") -> str:
    """Return text in which no line is a command to the CI service that prints it in a log.

    `colon` or `bracket` replaces the sign that begins a command; in a markup language it may be an escape for the same
    sign.
    """
    text = _COMMAND_AT_START.sub(lambda found: found[1] + colon, text)
    return text.replace(_COMMAND_ANYWHERE, f"##{bracket}")


def disarmed_markup(text: str) -> str:
    """Return XML or HTML with the same meaning, in which no line is a command."""
    return disarmed(text, colon="&#58;", bracket="&#91;")


def sha256_of(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8. A character that UTF-8 cannot encode counts as "?"."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def as_json(value: object) -> str:
    """Return a JSON document that can be printed anywhere, reads back unchanged, and ends in a newline.

    Raises ValueError if a number is not finite.
    """
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    return disarmed(_UNPRINTABLE.sub(lambda found: json.dumps(found[0])[1:-1], text), bracket="\\u005b") + "\n"
