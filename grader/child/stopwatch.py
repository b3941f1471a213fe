"""Times one call at a time. The submission's process and the trusted anchor run this same code in the same order, so
that the difference between their round trips is the difference between their functions.

    seed  ->  half of the cover  ->  inputs  ->  the other half, and the cover's sum
          ->  the call, between two events  ->  sums that commit to every output  ->  answer

The cover is fresh random bytes, many times the size of the L2 cache. All of it is enqueued without waiting: the
launches of the call hide behind it. It is drawn from the same seed, and its sum is part of the answer, so leaving it
out shows.
"""

from __future__ import annotations

import gc
import mmap
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import Protocol

import torch
from torch import Generator, Tensor

from grader.protocol.frames import await_number, send, send_numbers
from grader.protocol.messages import Awake, Clocked, Form, Launch, Open, Opened, Recipe, Timed
from grader.protocol.spans import MOST_SUMS, PIECES, WORD_BYTES, cut
from grader.tensors import bytes_of

Function = Callable[..., object]
# Between laps a process sleeps, and what Python and its launches need leaves the processor's caches: after 50 ms a call
# takes three times as long to reach the GPU. Two calls on the inputs of the last lap bring it back; of calls that take
# longer than this, so much of the time is the GPU's that it does not matter.
_REHEARSALS = 2
_BRIEF_US = 5e3
# What a tensor may be labelled with.
_NOTES = (int, float, bool, str, type(None))
# Inputs and cover come from one seed, but are no copies of each other.
_COVER_SEED = 0x5EED


class Seen(Protocol):
    """What was observed during a call."""

    launches: list[Launch]
    operators: dict[str, None]


Watch = Callable[[], AbstractContextManager[Seen]]


class _HostTimer:
    """Times on the CPU, where every call is over when it returns."""

    def __init__(self) -> None:
        self._times = [0.0, 0.0]

    def start(self) -> None:
        self._times[0] = perf_counter()

    def stop(self) -> None:
        self._times[1] = perf_counter()

    def elapsed_us(self) -> float:
        return (self._times[1] - self._times[0]) * 1e6


class _EventTimer:
    """Times on the GPU by two events."""

    def __init__(self) -> None:
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]  # type: ignore[no-untyped-call]
        self._end = torch.cuda.Event()  # type: ignore[no-untyped-call]

    def start(self) -> None:
        self._events[0].record()

    def stop(self) -> None:
        self._events[1].record()

    def wait(self) -> None:
        """Until all that was enqueued so far is done; with open eyes."""
        self._end.record()
        while not self._end.query():  # type: ignore[no-untyped-call]
            pass

    def elapsed_us(self) -> float:
        return float(self._events[0].elapsed_time(self._events[1])) * 1e3


@dataclass
class Captured:
    """A function captured as a CUDA graph: the memory that its inputs are put into, and that of its results."""

    graph: torch.cuda.CUDAGraph
    inputs: tuple[object, ...]
    result: object


@dataclass(frozen=True)
class Prepared:
    """A timed call that only lacks its seed."""

    timed: Timed
    function: Function
    watch: Watch
    captured: Captured | None


class Stopwatch:
    """Runs timed calls on one device. `build` makes the inputs of a recipe there."""

    def __init__(self, device: torch.device, build: Callable[[Recipe], tuple[object, ...]]) -> None:
        self._device = device
        self._build = build
        self._cover = torch.empty(0, dtype=torch.int64, device=device)
        self._halves = self._cover, self._cover
        self._chance = Generator(device)
        self._landing = torch.empty(MOST_SUMS, dtype=torch.int64, pin_memory=device.type == "cuda")
        self._timer: _HostTimer | _EventTimer = _EventTimer() if device.type == "cuda" else _HostTimer()
        self._inputs: tuple[object, ...] = ()
        self._outputs: tuple[object, ...] = ()
        self._seen: Seen | None = None
        self._peak_bytes = -1
        self._captured: dict[tuple[object, ...], Captured] = {}
        # What the inputs are of, and how long the last call of each function took that was not replayed.
        self._built: tuple[object, ...] = ()
        self._took_us: dict[tuple[object, ...], float] = {}

    def prepare(self, timed: Timed, function: Function, watch: Watch) -> Prepared:
        """All of a timed call that needs no seed: afterwards this process's GPU context is the one that runs."""
        captured = self._capture(timed, function, watch) if timed.method == "graph" else None
        if captured is None:
            self._rehearse(timed, function, watch)
        words = max(1, timed.cover_bytes // WORD_BYTES)
        if self._cover.numel() != words:
            self._cover = torch.empty(words, dtype=torch.int64, device=self._device)
            self._halves = self._cover[: words // 2], self._cover[words // 2 :]
        self._cover[:1].zero_()
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        return Prepared(timed, function, watch, captured)

    def _rehearse(self, timed: Timed, function: Function, watch: Watch) -> None:
        if self._built == _problem(timed) and self._took_us.get(_identity(timed), _BRIEF_US) < _BRIEF_US:
            for _ in range(_REHEARSALS):
                with _without_collector(), watch():
                    function(*self._inputs)

    def run(self, prepared: Prepared, seed: int) -> bytes:
        """The timed call; the sums that commit to its outputs and the cover, as 64-bit integers."""
        timed, captured = prepared.timed, prepared.captured
        # Half of the cover keeps the device busy from the first microsecond on, so that the time Python takes to make
        # the inputs, which differs from process to process and from minute to minute, is not on the clock.
        chance = self._chance.manual_seed(seed ^ _COVER_SEED)
        self._halves[0].random_(generator=chance)
        # The last inputs live until there are new ones: no two calls in a row get the same addresses.
        values = self._build(replace(timed.recipe, seed=seed))
        if captured is None:
            self._inputs, self._built = values, _problem(timed)
        else:
            _copy_into(captured.inputs, values)
        self._halves[1].random_(generator=chance)
        cover_sum = self._cover.sum().reshape(1)
        held = self._memory_from_here()
        with _without_collector(), prepared.watch() as seen:
            self._timer.start()
            result = prepared.function(*values) if captured is None else _replayed(captured)
            self._timer.stop()
        # What a graph holds was allocated when it was captured.
        self._peak_bytes = torch.cuda.max_memory_allocated(self._device) - held if held and captured is None else -1
        returned = tuple(result) if isinstance(result, tuple | list) else () if result is None else (result,)
        named = dict(zip(timed.arguments, values if captured is None else captured.inputs, strict=True))
        self._outputs = (*returned[:16], *(named[name] for name in timed.mutates))
        self._seen = seen
        sums = [_piece_sums(raw) for raw in map(self._bytes, range(len(self._outputs))) if raw is not None]
        fetched = self._fetched(torch.cat([*sums, cover_sum]))
        if captured is None:
            self._took_us[_identity(timed)] = self._timer.elapsed_us()
        return fetched

    def _memory_from_here(self) -> int:
        """Device memory in use, whose peak is counted anew from here on; 0 where there is no device to ask."""
        if self._device.type != "cuda":
            return 0
        torch.cuda.reset_peak_memory_stats(self._device)
        return torch.cuda.memory_allocated(self._device)

    def answer(self, prepared: Prepared, channel: socket.socket) -> Clocked:
        """The conversation of a timed call, from Awake on; sums are sent whatever the call does."""
        send(channel, asdict(Awake("awake")))
        seed, sums = await_number(channel), b""
        try:
            sums = self.run(prepared, seed)
        finally:
            send_numbers(channel, sums)
        return self.report()

    def report(self) -> Clocked:
        """What the latest call was, beside its sums."""
        return Clocked(
            "clocked",
            self._timer.elapsed_us(),
            tuple(form_of(output) for output in self._outputs),
            tuple(self._seen.launches) if self._seen else (),
            tuple(self._seen.operators)[:64] if self._seen else (),
            self._peak_bytes,
        )

    def show(self, wanted: Open, memory_fd: int) -> Opened:
        """Copy bytes of an output of the latest call into the memory file."""
        raw = self._bytes(wanted.output)
        if raw is None or wanted.first + wanted.count > raw.numel():
            return Opened("opened", copied=False)
        with mmap.mmap(memory_fd, 0) as memory:
            memory[: wanted.count] = raw[wanted.first : wanted.first + wanted.count].cpu().numpy().tobytes()
        return Opened("opened", copied=True)

    def _fetched(self, numbers: Tensor) -> bytes:
        """The numbers' bytes, once everything before them is done; through pinned memory, which takes no detours."""
        landing = self._landing[: numbers.numel()]
        landing.copy_(numbers, non_blocking=True)
        if isinstance(self._timer, _EventTimer):
            self._timer.wait()
        return bytes(landing.numpy().data)

    def _bytes(self, place: int) -> Tensor | None:
        """An output's elements as bytes on the device; None for what is no plain tensor."""
        output = self._outputs[place] if place < len(self._outputs) else None
        if type(output) is not Tensor or output.layout is not torch.strided or output.device.type != self._device.type:
            return None
        flat = bytes_of(output)
        return flat if flat.data_ptr() % WORD_BYTES == 0 else flat.clone()

    def _capture(self, timed: Timed, function: Function, watch: Watch) -> Captured:
        key = _identity(timed)
        if key not in self._captured:
            # One graph at a time: each keeps its inputs and results.
            self._captured.clear()
            inputs = self._build(timed.recipe)
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with watch(), torch.cuda.stream(stream):
                function(*inputs)
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with watch(), torch.cuda.graph(graph):
                result = function(*inputs)
            self._captured[key] = Captured(graph, inputs, result)
        return self._captured[key]


def _problem(timed: Timed) -> tuple[object, ...]:
    """What inputs are of, but for their seed."""
    return timed.recipe.part, *timed.recipe.case.items()


def _identity(timed: Timed) -> tuple[object, ...]:
    """What is called: baselines of different parts have the same names."""
    return timed.function, *_problem(timed)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Python's garbage collector has milliseconds of work, now and then, that are nobody's."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def form_of(output: object, alias: str = "") -> Form:
    """What an output looks like; only exactly torch.Tensor is a tensor.

    A subclass, or a tensor with methods of its own, could compute only when it is looked at; a label could not.
    """
    if type(output) is not Tensor:
        return Form(type(output).__name__[:80])
    if any(type(value) not in _NOTES or hasattr(Tensor, name) for name, value in vars(output).items()):
        return Form("tensor with attributes of its own")
    if output.layout is not torch.strided:
        return Form(f"tensor with layout {output.layout}")
    dtype = str(output.dtype).removeprefix("torch.")
    return Form("tensor", dtype, tuple(output.shape), output.device.type, alias)


def _piece_sums(raw: Tensor) -> Tensor:
    """The sums of the pieces of grader.protocol.spans, int64, wrapping around."""
    run, words = cut(raw.numel())
    found = []
    if run:
        found.append(raw[: PIECES * run].view(torch.int64).view(PIECES, -1).sum(1))
    if words:
        found.append(raw[PIECES * run : PIECES * run + words].view(torch.int64).sum().reshape(1))
    left = raw[PIECES * run + words :]
    if left.numel():
        filled = torch.zeros(WORD_BYTES, dtype=torch.uint8, device=raw.device)
        filled[: left.numel()].copy_(left)
        found.append(filled.view(torch.int64))
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.int64, device=raw.device)


def _replayed(captured: Captured) -> object:
    captured.graph.replay()
    return captured.result


def _copy_into(kept: Sequence[object], fresh: Sequence[object]) -> None:
    for into, value in zip(kept, fresh, strict=True):
        if isinstance(into, Tensor) and isinstance(value, Tensor):
            into.copy_(value)
