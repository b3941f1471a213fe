"""Length-checked frames of JSON over a Unix stream socket, with file descriptors beside them where a message needs one.

A frame is the four bytes b"grd1", the payload's length (unsigned, 4 bytes, big-endian) and the payload: one JSON
object in UTF-8. Where every microsecond counts, a frame b"grd2" holds 64-bit signed integers instead. A reader states
the largest payload it accepts before it allocates anything.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

R = TypeVar("R")

_HEADER = struct.Struct(">4sI")
_MAGIC = b"grd1"
_NUMBERS_MAGIC = b"grd2"

# What a trusted process may send (source files travel in it), and what it accepts from a submission's.
TRUSTED_BYTES = 16 << 20
UNTRUSTED_BYTES = 1 << 20
_WATCHED_S = 0.1
# So often is whoever waits for a frame asked whether it still wants to.
_POLL_S = 0.05
# No message of ours is deeper than a handful of levels.
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

    `deadline` (time.monotonic) bounds the whole message: a reader that never reads fills the channel, and would keep
    the writer for ever. It raises TimeoutError.
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
    """The next message and the descriptors that came with it. Raises Closed, FrameError, or TimeoutError.

    `deadline` (time.monotonic) bounds the whole frame: a writer that dribbles gains nothing. Until then `watch` is
    called every now and then, before the frame and in the middle of it; what it raises ends the wait.
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


def send_numbers(channel: socket.socket, numbers: bytes) -> None:
    """Send 64-bit signed integers, given as their native bytes."""
    channel.sendall(_HEADER.pack(_NUMBERS_MAGIC, len(numbers)) + numbers)


def receive_numbers(
    channel: socket.socket, most: int, deadline: float | None = None, watch: Callable[[], None] | None = None
) -> tuple[int, ...]:
    """The next frame, of at most `most` integers; as `receive`."""
    timeout = channel.gettimeout()
    magic, length = _HEADER.unpack(_read(channel, _HEADER.size, deadline, watch))
    if magic != _NUMBERS_MAGIC:
        raise FrameError(f"a frame of numbers must start with {_NUMBERS_MAGIC!r}, got {magic!r}")
    if length > 8 * most or length % 8:
        raise FrameError(f"a frame must hold at most {most} numbers of 8 bytes, got {length} bytes")
    payload = _read(channel, length, deadline, watch)
    channel.settimeout(timeout)
    return tuple(memoryview(payload).cast("q"))


def await_number(channel: socket.socket, most_s: float = 0.02) -> int:
    """The single number of the next frame, awaited with open eyes for `most_s`: the fastest way to hear of it."""
    size = _HEADER.size + 8
    give_up = time.perf_counter() + most_s
    while time.perf_counter() < give_up:
        try:
            frame = channel.recv(size, socket.MSG_DONTWAIT)
        except BlockingIOError:
            continue
        if not frame:
            raise Closed
        if len(frame) != size or frame[:4] != _NUMBERS_MAGIC:
            raise FrameError(f"a frame with one number must come whole, got {frame[:12]!r}")
        return int.from_bytes(frame[_HEADER.size :], sys.byteorder, signed=True)
    (number,) = receive_numbers(channel, 1)
    return number


def ask_by_the_clock(channel: socket.socket, number: int, read: Callable[[], R]) -> tuple[R, float]:
    """Send one number; what `read` then finds on the channel, and how many microseconds later it began to come.

    The answer is awaited with open eyes for a while; one that takes longer does not mind a few microseconds. Raises
    BlockingIOError where the other side has read nothing for so long that not even a number finds room.
    """
    frame = _HEADER.pack(_NUMBERS_MAGIC, 8) + number.to_bytes(8, sys.byteorder, signed=True)
    started = time.perf_counter_ns()
    channel.send(frame, socket.MSG_DONTWAIT)
    answered = await_message(channel, _WATCHED_S)
    found = read()
    if answered - started > _WATCHED_S * 1e9:
        answered = time.perf_counter_ns()
    return found, (answered - started) / 1e3


def await_message(channel: socket.socket, most_s: float = 0.02) -> int:
    """Wait with open eyes until something can be read, or `most_s` are over: a sleeper takes microseconds to wake.

    Returns the time at which the wait ended (time.perf_counter_ns).
    """
    deadline = time.perf_counter_ns() + int(most_s * 1e9)
    while True:
        readable = select.select([channel], [], [], 0)[0]
        now = time.perf_counter_ns()
        if readable or now > deadline:
            return now


def has_more(channel: socket.socket) -> bool:
    """Whether bytes lie on the channel that nobody has read yet; False as well where its other side is closed."""
    try:
        return bool(channel.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except OSError:
        return False


def _depth_exceeds(message: object, most: int) -> bool:
    """Whether some value lies deeper; told without recursion, which a submission could exhaust."""
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
    """Let what is done with the channel next last until then. Raises TimeoutError where that is over."""
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
        # Looking took its time: what is left begins here.
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
