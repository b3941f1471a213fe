"""The text of a submission, out of bytes that anybody may have written."""

from __future__ import annotations

from grader.errors import UsageError

MOST_BYTES = 1 << 20


def as_text(data: bytes, path: object) -> str:
    """The text in `data`, of which at most MOST_BYTES + 1 need be given. Raises UsageError for what cannot be a
    submission; `path` is what the message calls it.
    """
    if len(data) > MOST_BYTES:
        raise UsageError(f"a submission must hold at most {MOST_BYTES} bytes, got more in {path}")
    if not data.strip():
        raise UsageError(f"a submission must not be empty, got {path}")
    if b"\0" in data:
        raise UsageError(f"a submission must be text, got a NUL byte at offset {data.index(0)} in {path}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as broken:
        raise UsageError(
            f"a submission must be UTF-8, got byte 0x{data[broken.start]:02x} at offset {broken.start} in {path}"
        ) from None
