"""Find work of one call that touches the same memory without an order by streams, events or waits.

A replay runs the steps one after another. On a GPU the work of two streams overlaps, unless one waits for the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from linecache import getline
from typing import Literal

import numpy as np
from torch import Tensor

from grader.interpreter.accesses.races import Operation
from grader.interpreter.accesses.touched import Kind, Ranges, Touched, before_waiting, joined, touched_by
from grader.interpreter.memory import MemoryWatch
from grader.protocol.observations import GuardFinding
from grader.protocol.operators import EMPTY
from grader.protocol.trace import Choose, Launch, Operator, Step, StreamStep, span

_MOST_FINDINGS = 4
_HOST = _EVERYTHING = -1
# The option of a launch that may begin before the previous one has ended.
_EARLY = "launch_pdl"
_STORING: tuple[Kind, ...] = ("store", "atomic")
# The most elements of a tensor with gaps that are tracked one by one; a longer tensor counts from its first to its last
# element.
_MOST_ELEMENTS = 1 << 22

# By stream: how much of its work is known to be over.
_Clock = dict[int, int]


def is_unordered(steps: Sequence[Step]) -> bool:
    """Return whether a step works on another stream than the first, or may begin before the previous one has ended."""
    return any(
        (isinstance(one, StreamStep) and one.action == "use")
        or (isinstance(one, Launch) and bool(one.options.get(_EARLY)))
        or (isinstance(one, Choose) and any(map(is_unordered, one.alternatives)))
        for one in steps
    )


@dataclass(frozen=True)
class _StreamWork:
    """Hold what one step does on a stream.

    place: its number among those of the stream. arguments: its tensors, by name. early: it may have begun before the
    previous work on the stream had ended.
    """

    name: str
    line: int
    stream: int
    place: int
    touched: Touched
    arguments: Mapping[str, Tensor]
    early: bool = False

    def argument_at(self, byte: int) -> str:
        """Return the name of the argument that holds a byte; "" where none does."""
        for name, tensor in self.arguments.items():
            if tensor.data_ptr() <= byte < tensor.data_ptr() + _bytes_spanned(tensor):
                return name
        return ""


@dataclass
class WorkOrder:
    """The work of a call so far, and the order of it that streams, events and waits make.

    watch: of the interpreter, knows what the latest launch did. Tensors are kept alive: an address is never that of
    other memory.
    """

    watch: MemoryWatch
    findings: list[GuardFinding] = field(default_factory=list)
    _stream: int = 0
    _clocks: dict[int, _Clock] = field(default_factory=dict)
    _events: dict[int, _Clock] = field(default_factory=dict)
    _work: list[_StreamWork] = field(default_factory=list)

    def follow(self, step: StreamStep) -> None:
        """Note a change of the working stream, an event that a stream marks, or which stream waits for which event."""
        match step:
            case StreamStep("use", stream):
                self._stream = stream
            case StreamStep("mark", stream, event):
                self._events[event] = self._clock_of(stream) | {stream: self._count(stream)}
            case StreamStep("wait", stream, event):
                everything = {one: self._count(one) for one in self._clocks}
                _join(self._clock_of(stream), everything if event == _EVERYTHING else self._events.get(event, {}))

    def note_operator(self, step: Operator, sources: Sequence[Tensor], results: Sequence[Tensor]) -> None:
        """Note the work of an operator."""
        name = step.name.partition(".")[0]
        touched = _touched_by_operator(step, sources, results)
        self._note(name, step.line, touched, {str(place): one for place, one in enumerate((*sources, *results))})

    def note_launch(self, step: Launch, name: str, given: Mapping[str, object]) -> None:
        """Note the work of the latest launch. given: its arguments by name."""
        if (operations := self.watch.operations()) is None:
            return
        tensors = {name: getattr(value, "base", value) for name, value in given.items()}
        arguments = {name: one for name, one in tensors.items() if isinstance(one, Tensor)}
        early = bool(step.options.get(_EARLY))
        self._note(name, step.line, touched_by(operations), arguments, early=early)
        if early:
            self._look_at_early_accesses(self._work[-1], before_waiting(operations, self.watch.waits))

    def _look_at_early_accesses(self, work: _StreamWork, early: Sequence[Operation]) -> None:
        """Report the first access of a launch that conflicts with work that may still run.

        early: its operations before its programs wait. The work that may still run is the previous one on the stream,
        and earlier ones as long as each began early itself.
        """
        touched = touched_by(early)
        for before in reversed([one for one in self._work[:-1] if one.stream == work.stream]):
            if touched.conflict(before.touched):
                found = ((one, touched_by([one]).conflict(before.touched)) for one in early)
                one, (kind, other_kind, byte) = next((one, how) for one, how in found if how)
                line, file = one.access.where
                known = replace(_finding(work, byte, "dependent"), line=line, code=getline(file, line).strip()[:200])
                known = replace(known, other_line=before.line, other_kernel=before.name)
                self._add(replace(known, access=kind, other_access=other_kind))
                return
            if not before.early:
                return

    def _note(
        self, name: str, line: int, touched: Touched, arguments: Mapping[str, Tensor], *, early: bool = False
    ) -> None:
        """Note the work of one step, and compare it with all work that may go on at the same time."""
        stream = self._stream
        clock = self._clock_of(stream)
        work = _StreamWork(name, line, stream, self._count(stream) + 1, touched, arguments, early)
        for earlier in self._work:
            if earlier.stream == stream or clock.get(earlier.stream, 0) >= earlier.place:
                continue
            if conflict := touched.conflict(earlier.touched):
                self._report(work, earlier, *conflict)
        clock[stream] = work.place
        self._work.append(work)

    def end(self) -> Sequence[GuardFinding]:
        """Return all findings at the end of the call, whose results are used on the stream that it began on."""
        clock = self._clock_of(0)
        for one in self._work:
            stores = [kind for kind in _STORING if len(one.touched.ranges.get(kind, ()))]
            if one.stream and clock.get(one.stream, 0) < one.place and stores:
                byte = int(one.touched.ranges[stores[0]][0, 0])
                self._add(_finding(one, byte, "end"))
        return self.findings

    def _report(self, work: _StreamWork, earlier: _StreamWork, kind: Kind, other_kind: Kind, byte: int) -> None:
        found = _finding(work, byte, "streams")
        known = replace(found, other_line=earlier.line, other_kernel=earlier.name)
        self._add(replace(known, access=kind, other_access=other_kind))

    def _add(self, finding: GuardFinding) -> None:
        if len(self.findings) < _MOST_FINDINGS:
            self.findings.append(finding)

    def _count(self, stream: int) -> int:
        """Return how many steps worked on a stream so far."""
        return self._clocks.get(stream, {}).get(stream, 0)

    def _clock_of(self, stream: int) -> _Clock:
        """Return the work that a stream knows to be over. Work that the host waited for is over for all later work."""
        clock = self._clocks.setdefault(stream, {})
        return _join(clock, self._clocks.get(_HOST, {}))


def _finding(work: _StreamWork, byte: int, between: Literal["streams", "end", "dependent"]) -> GuardFinding:
    return GuardFinding(
        kind="race",
        kernel=work.name,
        line=work.line,
        code="",
        program=(),
        argument=work.argument_at(byte),
        index=(),
        shape=(),
        element=0,
        elements=0,
        lanes=0,
        active_lanes=0,
        masked=False,
        access="store",
        between=between,
    )


def _touched_by_operator(step: Operator, sources: Sequence[Tensor], results: Sequence[Tensor]) -> Touched:
    """Return what an operator reads and writes."""
    written = [] if step.name.partition(".")[0] in EMPTY else results
    return Touched({"load": joined(map(_ranges, sources)), "store": joined(map(_ranges, written))})


def _ranges(tensor: Tensor) -> Ranges:
    """Return the bytes that a tensor's elements cover."""
    start, size = tensor.data_ptr(), tensor.element_size()
    if not tensor.numel():
        return joined([])
    if tensor.is_contiguous() or tensor.numel() > _MOST_ELEMENTS:
        return np.array([[start, start + _bytes_spanned(tensor)]], dtype=np.int64)
    places = np.zeros(1, dtype=np.int64)
    for length, stride in zip(tensor.shape, tensor.stride(), strict=True):
        places = np.add.outer(places, np.arange(length, dtype=np.int64) * stride).reshape(-1)
    begins = np.unique(places) * size + start
    return joined([np.stack([begins, begins + size], axis=1)])


def _bytes_spanned(tensor: Tensor) -> int:
    """Return the bytes from a tensor's first element to the end of its last."""
    return span(tensor.shape, tensor.stride()) * tensor.element_size()


def _join(clock: _Clock, other: _Clock) -> _Clock:
    for stream, count in other.items():
        clock[stream] = max(clock.get(stream, 0), count)
    return clock
