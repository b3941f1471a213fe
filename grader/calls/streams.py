"""Pretended CUDA streams and events: nothing runs on them, and a listener hears who waits for whom.

Stands in for those of torch.cuda where there is no GPU.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Literal, Self

import torch

# A stream gets an event, or it waits for one.
Action = Literal["mark", "wait"]
# In place of a stream: the program that launches. In place of an event: all work so far.
HOST = EVERYTHING = -1

_GPU = torch.device("cuda", 0)


class Streams:
    """The pretended streams of this process. listener: hears an action, and the numbers of a stream and an event."""

    def __init__(self) -> None:
        self.listener: Callable[[Action, int, int], None] | None = None
        self._numbers = count(1)
        self._events = count(1)
        self._of_thread = threading.local()

    def new_number(self) -> int:
        """Return the number of a new stream."""
        return next(self._numbers)

    @property
    def current(self) -> PretendedStream:
        """Return the stream that this thread works on."""
        found: PretendedStream = getattr(self._of_thread, "stream", DEFAULT)
        return found

    @current.setter
    def current(self, stream: PretendedStream | None) -> None:
        if stream is not None:
            self._of_thread.stream = stream

    def mark(self, stream: int) -> int:
        """Return the number of a new event, which is recorded on a stream."""
        event = next(self._events)
        self._tell("mark", stream, event)
        return event

    def wait(self, stream: int, event: int) -> None:
        """Let a stream, or the host, wait for an event."""
        self._tell("wait", stream, event)

    def _tell(self, action: Action, stream: int, event: int) -> None:
        if self.listener is not None:
            self.listener(action, stream, event)

    @contextmanager
    def on(self, stream: PretendedStream | None) -> Iterator[None]:
        """Work on a stream in the block; None: on the one before."""
        before = self.current
        self.current = stream
        try:
            yield
        finally:
            self.current = before


class PretendedStream:
    """A stream that nothing runs on. cuda_stream: its number; equal numbers are one stream."""

    device = _GPU
    priority = 0

    def __init__(self, *_: object, **named: Any) -> None:
        given = named.get("stream_id")
        self.cuda_stream = self.stream_id = STREAMS.new_number() if given is None else int(given)
        self._before: list[PretendedStream] = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PretendedStream) and self.cuda_stream == other.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def __enter__(self) -> Self:
        self._before.append(STREAMS.current)
        STREAMS.current = self
        return self

    def __exit__(self, *_: object) -> None:
        STREAMS.current = self._before.pop()

    def synchronize(self) -> None:
        """Let the host wait for all work of the stream."""
        STREAMS.wait(HOST, STREAMS.mark(self.cuda_stream))

    def query(self) -> bool:
        """Return True: whoever asks goes on when the work has ended."""
        self.synchronize()
        return True

    def wait_stream(self, stream: PretendedStream) -> None:
        """Wait for all work of another stream so far."""
        STREAMS.wait(self.cuda_stream, STREAMS.mark(stream.cuda_stream))

    def wait_event(self, event: PretendedEvent) -> None:
        """Wait for an event."""
        event.wait(self)

    def record_event(self, event: PretendedEvent | None = None) -> PretendedEvent:
        """Record an event on the stream."""
        event = event or PretendedEvent()
        event.record(self)
        return event


class ExternalStream(PretendedStream):
    """A stream by its number."""

    def __init__(self, stream_ptr: int, *_: object, **__: object) -> None:
        super().__init__(stream_id=stream_ptr)


class PretendedEvent:
    """An event that is complete whenever somebody looks."""

    def __init__(self, *_: object, **__: object) -> None:
        self._number = 0

    def record(self, stream: PretendedStream | None = None) -> None:
        """Stand behind all work of a stream so far."""
        self._number = STREAMS.mark((stream or STREAMS.current).cuda_stream)

    def wait(self, stream: PretendedStream | None = None) -> None:
        """Let a stream wait."""
        if self._number:
            STREAMS.wait((stream or STREAMS.current).cuda_stream, self._number)

    def synchronize(self) -> None:
        """Let the host wait."""
        if self._number:
            STREAMS.wait(HOST, self._number)

    def query(self) -> bool:
        """Return True: whoever asks goes on when the work has ended."""
        self.synchronize()
        return True

    def elapsed_time(self, _other: PretendedEvent) -> float:
        """Return a millisecond."""
        return 1.0


def synchronize(_device: object = None) -> None:
    """Let the host wait for all work."""
    STREAMS.wait(HOST, EVERYTHING)


def set_current(stream: PretendedStream | None) -> None:
    """Let this thread work on a stream from now on."""
    STREAMS.current = stream


STREAMS = Streams()
DEFAULT = PretendedStream(stream_id=0)
