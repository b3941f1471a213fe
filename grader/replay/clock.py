"""Time work on one device. The replayer and the baseline process run this same code, each by itself.

    fresh inputs -> cover -> event | the work | event -> sums of the outputs

The cover reads and writes many times the L2 cache. It has two uses: it evicts the inputs from the caches, and it keeps
the device busy while the host enqueues the work, so that a launch costs as much as in a program that keeps its GPU
busy.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Protocol

import torch
from torch import Generator, Tensor

from grader.protocol.answers import Sampled

# Passes over the cover: together longer than the host needs to enqueue some launches.
_COVERS = 2
# An output is summed in this many pieces, each of at least so many elements; so many elements at a time. The signs of a
# piece repeat after about so many elements: a GPU sums many short rows faster than a few long ones.
_PIECES, _LEAST_PIECE, _AT_A_TIME, _SIGNS = 128, 1024, 1 << 26, 1 << 16
# The largest number in an answer; honest sums are far smaller.
_MOST_SUM = 1e14
_NO_SUM = -1.0
# Signs and inputs come from one seed, but must not be copies of each other.
_SIGNS_SEED = 0x5EED


class TimedWork(Protocol):
    """Work that can be timed. `place` puts inputs where `run` finds them; `run` returns the outputs.

    mutated: the places of the inputs that `run` changes; they come last among the outputs.
    """

    @property
    def mutated(self) -> tuple[int, ...]:
        """Return the places of the inputs that are changed."""

    def inputs(self, seed: int) -> Sequence[object]:
        """Return fresh inputs on the device, drawn from a seed."""

    def place(self, inputs: Sequence[object]) -> None:
        """Use these inputs from now on."""

    def run(self) -> Sequence[object]:
        """Do the work once; return its outputs."""


class _HostTimer:
    """A timer on the CPU, where all work is over when it returns."""

    def __init__(self) -> None:
        self._times = [0.0, 0.0]

    def start(self) -> None:
        self._times[0] = perf_counter()

    def stop(self) -> None:
        self._times[1] = perf_counter()

    def is_exposed(self) -> bool:
        return False

    def elapsed_us(self) -> float:
        return (self._times[1] - self._times[0]) * 1e6


class _EventTimer:
    """A timer on the GPU, by two events."""

    def __init__(self) -> None:
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]  # type: ignore[no-untyped-call]

    def start(self) -> None:
        self._events[0].record()

    def stop(self) -> None:
        self._events[1].record()

    def is_exposed(self) -> bool:
        """Return whether the device reached the work before all of it was enqueued: it may have waited for the host."""
        return bool(self._events[0].query())  # type: ignore[no-untyped-call]

    def elapsed_us(self) -> float:
        self._events[1].synchronize()
        return float(self._events[0].elapsed_time(self._events[1])) * 1e3


class Clock:
    """The clock of one device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._timer: _HostTimer | _EventTimer = _EventTimer() if device.type == "cuda" else _HostTimer()
        self._cover = torch.zeros(1, dtype=torch.int64, device=device)

    def sample(self, work: TimedWork, seed: int, cover_bytes: int) -> tuple[Sampled, tuple[object, ...]]:
        """Run the work once on fresh inputs; return the sample and the outputs."""
        work.place(work.inputs(seed))
        device_us, exposed, held, outputs = self._time_once(work, cover_bytes)
        peak_bytes = -1 if isinstance(work, Graph) else self._peak_bytes(held)
        sums = _sums(_tensors_to_compare(work, outputs, seed), seed, self._device)
        projections, scales = (tuple(tuple(one[place]) for one in sums) for place in (0, 1))
        return Sampled("sampled", device_us, projections, scales, exposed, peak_bytes), tuple(outputs)

    def time_us(self, work: TimedWork, cover_bytes: int) -> float:
        """Return the time of the work on its present inputs, in microseconds."""
        return self._time_once(work, cover_bytes)[0]

    def _time_once(self, work: TimedWork, cover_bytes: int) -> tuple[float, bool, int, Sequence[object]]:
        self._run_covers(cover_bytes)
        held = self._memory_from_here()
        with _without_collector():
            self._timer.start()
            outputs = work.run()
            self._timer.stop()
            exposed = self._timer.is_exposed()
        return self._timer.elapsed_us(), exposed, held, outputs

    def _run_covers(self, cover_bytes: int) -> None:
        words = max(1, cover_bytes // self._cover.element_size())
        if self._cover.numel() != words:
            self._cover = torch.zeros(words, dtype=torch.int64, device=self._device)
        for _ in range(_COVERS):
            self._cover.add_(1)

    def _memory_from_here(self) -> int:
        """Reset the peak of device memory and return the bytes in use; -1 on the CPU."""
        if self._device.type != "cuda":
            return -1
        torch.cuda.reset_peak_memory_stats(self._device)
        return self._bytes_held("current")

    def _peak_bytes(self, held: int) -> int:
        return -1 if held < 0 else self._bytes_held("peak") - held

    def _bytes_held(self, when: str) -> int:
        """Return the bytes allocated, "current" or "peak". torch's own functions for it sort all statistics."""
        return int(torch.cuda.memory_stats_as_nested_dict(self._device)["allocated_bytes"]["all"][when])


class Graph:
    """Work captured as a CUDA graph, whose launches cost the host nothing. Raises any error of the capture."""

    def __init__(self, work: TimedWork, seed: int) -> None:
        self._work = work
        self._inputs = tuple(work.inputs(seed))
        work.place(self._inputs)
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            work.run()
        torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._outputs = work.run()

    @property
    def mutated(self) -> tuple[int, ...]:
        """Return the places of the inputs that are changed."""
        return self._work.mutated

    def inputs(self, seed: int) -> Sequence[object]:
        """Return fresh inputs."""
        return self._work.inputs(seed)

    def place(self, inputs: Sequence[object]) -> None:
        """Copy inputs to the places that the graph reads, and let the work reset its memory."""
        self._work.place(self._inputs)
        for into, value in zip(self._inputs, inputs, strict=True):
            if isinstance(into, Tensor) and isinstance(value, Tensor):
                into.copy_(value)

    def given(self) -> Sequence[object]:
        """Return the inputs of the last run, as they are now."""
        return self._inputs

    def run(self) -> Sequence[object]:
        """Replay the graph."""
        self._graph.replay()
        return self._outputs


def _tensors_to_compare(work: TimedWork, outputs: Sequence[object], seed: int) -> list[object]:
    """Return the tensors to sum up: the outputs, and the changes of inputs that are changed in place."""
    if not work.mutated:
        return list(outputs)
    fresh = work.inputs(seed)
    before = [fresh[place] for place in work.mutated]
    returned, changed = outputs[: -len(before)], outputs[-len(before) :]
    differences = [
        one - was if isinstance(one, Tensor) and isinstance(was, Tensor) and one.shape == was.shape else None
        for one, was in zip(changed, before, strict=True)
    ]
    return [*returned, *differences]


def _sums(outputs: Sequence[object], seed: int, device: torch.device) -> list[list[list[float]]]:
    """Return the projections and the scales of every output; empty lists for an output that is no tensor."""
    chance = Generator(device)
    found: list[list[list[float]]] = []
    for output in outputs:
        sums: list[list[float]] = [[], []]
        if isinstance(output, Tensor):
            sums = _sums_of(output, chance.manual_seed(seed ^ _SIGNS_SEED)).tolist()
        found.append([[*map(_representable_sum, one)] for one in sums])
    return found


def _sums_of(output: Tensor, chance: Generator) -> Tensor:
    """Return the sum under random signs, and the norm, of every piece of a tensor: [2, pieces] on the device."""
    flat = output.reshape(-1)
    pieces = max(1, min(_PIECES, flat.numel() // _LEAST_PIECE))
    stripes = max(1, flat.numel() // (pieces * _SIGNS))
    run = flat.numel() // (pieces * stripes)
    if not run:
        return torch.zeros(2, 1, dtype=torch.float32, device=output.device)
    body = flat[: pieces * stripes * run].view(pieces * stripes, run)
    signs = torch.randint(0, 2, (run,), generator=chance, device=output.device, dtype=torch.int8).float() * 2 - 1
    rows = max(1, _AT_A_TIME // run)
    found = []
    for first in range(0, pieces * stripes, rows):
        some = body[first : first + rows].float()
        found.append(torch.stack([some @ signs, torch.linalg.vector_norm(some, dim=1)]))
    projections, norms = torch.cat(found, dim=1).view(2, pieces, stripes)
    sums = torch.stack([projections.sum(1), torch.linalg.vector_norm(norms, dim=1)])
    rest = flat[body.numel() : flat.numel() // pieces * pieces][:run].float()
    if rest.numel():
        # The remainder of short rows counts in the last piece.
        sums[0, -1] += rest @ signs[: rest.numel()]
        sums[1, -1] = sums[1, -1].hypot(torch.linalg.vector_norm(rest))
    return sums


def _representable_sum(number: float) -> float:
    return number if math.isfinite(number) and abs(number) <= _MOST_SUM else _NO_SUM


@contextmanager
def _without_collector() -> Iterator[None]:
    """Stop Python's garbage collector: its milliseconds of work must not count in a sample."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
