"""Number the streams and events of one call, and make the steps that tell their order.

Covers only simulated streams: those of a real GPU are not recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grader.calls.streams import EVERYTHING, HOST, STREAMS, Action


class StreamOrder:
    """The streams of one call. The one that it begins on is stream 0."""

    def __init__(self) -> None:
        self._streams = {HOST: HOST, STREAMS.current.cuda_stream: 0}
        self._events = {EVERYTHING: EVERYTHING}
        self._used = 0

    def steps_before_work(self) -> Iterator[list[Any]]:
        """Yield the step that names the working stream, if that has changed."""
        stream = self._place_of(STREAMS.current.cuda_stream)
        if stream != self._used:
            self._used = stream
            yield ["stream", "use", stream, 0]

    def step_of(self, action: Action, stream: int, event: int) -> list[Any] | None:
        """Return the step for a stream's action; None for an event of an earlier call, whose work is ignored."""
        if action == "mark":
            self._events[event] = len(self._events)
        place = self._events.get(event)
        return None if place is None else ["stream", action, self._place_of(stream), place]

    def _place_of(self, stream: int) -> int:
        """Return a stream's number in the trace."""
        return self._streams.setdefault(stream, len(self._streams) - 1)
