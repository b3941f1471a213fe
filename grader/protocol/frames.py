"""Length-checked frames of JSON over a Unix stream socket, with file descriptors where a message needs one.

A frame is the four bytes b"grd1", the payload's length (unsigned, 4 bytes, big-endian) and the payload: one JSON
object in UTF-8. A reader states the largest payload it accepts before it allocates anything.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

_HEADER = struct.Struct(">4sI")
_MAGIC = b"grd1"

# The most bytes from a trusted process (source files travel in it), and from a submission's process.
TRUSTED_BYTES = 16 << 20
UNTRUSTED_BYTES = 4 << 20
# The interval at which a waiting reader calls `watch`.
_POLL_S = 0.05
# No honest message is deeper than a handful of levels.
_MOST_DEPTH = 32


class FrameError(ValueError):
    """The bytes on the channel are no frame, or the frame is no JSON object within the limit."""


class Closed(EOFError):
    """The other side closed the channel, between frames or in the middle of one."""


def send(
    channel: socket.socket,
    message: dict[str, Any],
    descriptors: Sequence[int] = (),
    deadline: float | None = None,
) -> None:
    """Send one message; the descriptors travel with its first byte. Raises OSError.

    deadline: a time.monotonic for the whole message, since a reader that never reads would block the writer for ever.
    Raises TimeoutError after it.
    """
    payload = json.dumps(message).encode()
    data = memoryview(_HEADER.pack(_MAGIC, len(payload)) + payload)
    timeout = channel.gettimeout()
    if descriptors:
        _allow_until(channel, deadline)
        sent = socket.send_fds(channel, [data], list(descriptors))
        data = data[sent:]
    _allow_until(channel, deadline)
    channel.sendall(data)
    channel.settimeout(timeout)


def receive(
    channel: socket.socket,
    limit: int,
    descriptors: int = 0,
    deadline: float | None = None,
    watch: Callable[[], None] | None = None,
) -> tuple[dict[str, Any], list[int]]:
    """Return the next message and its descriptors. Raises Closed, FrameError, or TimeoutError.

    deadline: a time.monotonic for the whole frame, so that a slow writer gains nothing. watch: called regularly until
    then, before the frame and in the middle of it; an exception of it ends the wait.
    """
    timeout = channel.gettimeout()
    header, received = _read_header(channel, descriptors, deadline, watch)
    magic, length = _HEADER.unpack(header)
    if magic != _MAGIC:
        raise FrameError(f"a frame must start with {_MAGIC!r}, got {magic!r}")
    if length > limit:
        raise FrameError(f"a frame must hold at most {limit} bytes, got {length}")
    payload = _read(channel, length, deadline, watch)
    channel.settimeout(timeout)
    try:
        message = json.loads(payload.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as broken:
        raise FrameError(f"a frame must hold JSON: {str(broken)[:80]}") from broken
    if not isinstance(message, dict):
        raise FrameError(f"a frame must hold a JSON object, got {type(message).__name__}")
    if _depth_exceeds(message, _MOST_DEPTH):
        raise FrameError(f"a frame must nest at most {_MOST_DEPTH} deep")
    return message, received


def has_more(channel: socket.socket) -> bool:
    """Return whether unread bytes lie on the channel; False also if the other side is closed."""
    try:
        return bool(channel.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except OSError:
        return False


def _depth_exceeds(message: object, most: int) -> bool:
    """Return whether some value lies deeper, without recursion, which a submission could exhaust."""
    level = [message]
    for _ in range(most):
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return False
    return True


def _allow_until(channel: socket.socket, deadline: float | None) -> None:
    """Limit the next operation on the channel to the deadline. Raises TimeoutError if it has passed."""
    if deadline is None:
        return
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    channel.settimeout(left)


def _read_header(
    channel: socket.socket, descriptors: int, deadline: float | None, watch: Callable[[], None] | None
) -> tuple[bytes, list[int]]:
    if not descriptors:
        return _read(channel, _HEADER.size, deadline, watch), []
    start, received, _, _ = socket.recv_fds(channel, _HEADER.size, descriptors)
    if not start:
        raise Closed
    return start + _read(channel, _HEADER.size - len(start), deadline, watch), list(received)


def _read(channel: socket.socket, size: int, deadline: float | None, watch: Callable[[], None] | None = None) -> bytes:
    chunks = []
    watched = time.monotonic()
    while size:
        if watch is not None and time.monotonic() - watched >= _POLL_S:
            watch()
            watched = time.monotonic()
        # `watch` took time: compute the rest anew.
        _allow_until(channel, deadline)
        if watch is not None:
            channel.settimeout(min(channel.gettimeout() or _POLL_S, _POLL_S))
        try:
            chunk = channel.recv(min(size, 1 << 16))
        except TimeoutError:
            if watch is None:
                raise
            continue
        if not chunk:
            raise Closed
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
