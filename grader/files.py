"""Decode the text of a submission, and write a file in one step. Both serve the whole project."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import tempfile
import tokenize
from pathlib import Path

from grader.errors import UsageError

MOST_BYTES = 1 << 20
_SAVE = "; save it as UTF-8"


def as_text(data: bytes, path: object) -> str:
    """Return the text of a submission from its bytes.

    `data` may be cut at MOST_BYTES + 1 bytes; `path` names the file in messages. Raises UsageError for bytes that
    cannot be a submission.
    """
    if len(data) > MOST_BYTES:
        raise UsageError(f"a submission must hold at most {MOST_BYTES} bytes, got more in {path}")
    if not data.strip():
        raise UsageError(f"a submission must not be empty, got {path}")
    if b"\0" in data:
        raise UsageError(f"a submission must be text, got a NUL byte in {_line(data, data.index(0))} of {path}{_SAVE}")
    _refuse_other_encodings(data, path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as broken:
        got = f"byte 0x{data[broken.start]:02x} in {_line(data, broken.start)}"
        raise UsageError(f"a submission must be UTF-8, got {got} of {path}{_SAVE}") from None


def _line(data: bytes, offset: int) -> str:
    before = data[:offset]
    return f"line {before.count(10) + 1}"


def _refuse_other_encodings(data: bytes, path: object) -> None:
    """Raise UsageError where the first lines declare another encoding: Python would run another text."""
    try:
        declared = tokenize.detect_encoding(io.BytesIO(data.removeprefix(codecs.BOM_UTF8)).readline)[0]
    except SyntaxError as unknown:
        # Bytes that are not UTF-8: the caller reports their offset.
        if "invalid or missing encoding declaration" in str(unknown):
            return
        declared = str(unknown).removeprefix("unknown encoding").strip(": ")
    else:
        if codecs.lookup(declared).name in ("utf-8", "ascii"):
            return
    raise UsageError(f"a submission must be UTF-8, and its first lines declare {declared[:40]} in {path}")


def write_atomically(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Replace a file in one step: a reader sees the old text or the new one, after a crash too.

    The folder must exist. A character that UTF-8 cannot encode becomes "?". Raises OSError, and then leaves the old
    file alone.
    """
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=".grade-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(unfinished, mode)
        os.replace(unfinished, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise
