"""Times work on one device. The replayer and the process of the baselines run this same code, each by itself.

    fresh inputs -> cover -> event | the work | event -> norms of the outputs

The cover reads and writes many times the L2 cache. It has two uses: the inputs leave the caches, and the host enqueues
the work while the device is still busy, so that a launch costs what it costs in a program that keeps its GPU busy.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Protocol

import torch
from torch import Tensor

from grader.protocol.messages import Sampled

# What an answer may carry as a number; no honest norm comes near.
_MOST_NORM = 1e14
_NO_NORM = -1.0


class Work(Protocol):
    """Something that can be timed. `place` puts inputs where `run` finds them; `run` returns the outputs."""

    def inputs(self, seed: int) -> Sequence[object]:
        """Return fresh inputs on the device, drawn from a seed."""

    def place(self, inputs: Sequence[object]) -> None:
        """Use these inputs from now on."""

    def run(self) -> Sequence[object]:
        """Do the work once; return its outputs."""


class _HostTimer:
    """Times on the CPU, where all work is over when it returns."""

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
    """Times on the GPU, by two events."""

    def __init__(self) -> None:
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]  # type: ignore[no-untyped-call]

    def start(self) -> None:
        self._events[0].record()

    def stop(self) -> None:
        self._events[1].record()

    def is_exposed(self) -> bool:
        """Tell whether the device reached the work before all of it was enqueued: it may have waited for the host."""
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

    def sample(self, work: Work, seed: int, cover_bytes: int) -> tuple[Sampled, tuple[object, ...]]:
        """Run the work once on inputs of its own; return what was measured, and the outputs."""
        work.place(work.inputs(seed))
        device_us, exposed, held, outputs = self._timed(work, cover_bytes)
        norms = norms_of(outputs)
        return Sampled("sampled", device_us, norms, exposed, self._peak_bytes(held)), tuple(outputs)

    def time_us(self, work: Work, cover_bytes: int) -> float:
        """Return how long the work takes on the inputs that it has, in microseconds."""
        return self._timed(work, cover_bytes)[0]

    def _timed(self, work: Work, cover_bytes: int) -> tuple[float, bool, int, Sequence[object]]:
        self._covered(cover_bytes)
        held = self._memory_from_here()
        with _without_collector():
            self._timer.start()
            outputs = work.run()
            self._timer.stop()
            exposed = self._timer.is_exposed()
        return self._timer.elapsed_us(), exposed, held, outputs

    def _covered(self, cover_bytes: int) -> None:
        words = max(1, cover_bytes // self._cover.element_size())
        if self._cover.numel() != words:
            self._cover = torch.zeros(words, dtype=torch.int64, device=self._device)
        self._cover.add_(1)

    def _memory_from_here(self) -> int:
        """Return the device memory in use, and count its peak anew from here on; -1 where there is no device to ask."""
        if self._device.type != "cuda":
            return -1
        torch.cuda.reset_peak_memory_stats(self._device)
        return torch.cuda.memory_allocated(self._device)

    def _peak_bytes(self, held: int) -> int:
        return -1 if held < 0 else torch.cuda.max_memory_allocated(self._device) - held


class Graph:
    """Work captured as a CUDA graph: its launches cost the host nothing. Raises what capturing raises."""

    def __init__(self, work: Work, seed: int) -> None:
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

    def inputs(self, seed: int) -> Sequence[object]:
        """Return fresh inputs."""
        return self._work.inputs(seed)

    def place(self, inputs: Sequence[object]) -> None:
        """Copy inputs to where the graph finds them."""
        for into, value in zip(self._inputs, inputs, strict=True):
            if isinstance(into, Tensor) and isinstance(value, Tensor):
                into.copy_(value)

    def run(self) -> Sequence[object]:
        """Replay the graph."""
        self._graph.replay()
        return self._outputs


def norms_of(outputs: Sequence[object]) -> tuple[float, ...]:
    """Return the sum of the absolute values of every output; -1 for what is no tensor, or has no finite sum."""
    sums = [_sum_of_sizes(one).double() for one in outputs if type(one) is Tensor]
    found = iter(torch.stack(sums).tolist() if sums else ())
    return tuple(_told(next(found)) if type(one) is Tensor else _NO_NORM for one in outputs)


def _told(norm: float) -> float:
    return norm if math.isfinite(norm) and norm <= _MOST_NORM else _NO_NORM


def _sum_of_sizes(output: Tensor) -> Tensor:
    if not output.is_floating_point():
        return output.abs().sum(dtype=torch.float64) if output.dtype != torch.bool else output.sum()
    wide = output.dtype if output.dtype == torch.float64 else torch.float32
    norm: Tensor = torch.linalg.vector_norm(output, 1, dtype=wide)
    return norm


@contextmanager
def _without_collector() -> Iterator[None]:
    """Python's garbage collector has milliseconds of work, now and then, that are nobody's."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
