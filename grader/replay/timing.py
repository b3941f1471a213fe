"""Time traces in the replayer: prepare a trace, tune its autotuned launches, and take samples of it."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from statistics import median

import torch
from torch import Tensor

from grader.calls.filling import fill_uninitialised_memory
from grader.calls.outputs import form_of
from grader.calls.storage import bytes_of
from grader.calls.tuning import is_passed_over
from grader.exercise.tensors import unwritten
from grader.protocol.answers import BytesShown, Form, Prepared, Sampled, TunedChoice
from grader.protocol.configurations import lightest_first
from grader.protocol.requests import Call, Prepare, Recipe, Sample, Show
from grader.protocol.trace import Choose, KernelText, Trace, Window, span
from grader.replay.clock import Clock, Graph, TimedWork
from grader.replay.cute_programs import Program
from grader.replay.kernels import Kernels
from grader.replay.memory import Memory
from grader.replay.run import Library, Run, Uncounted, first_that_works

_TUNING_SAMPLES = 5
# A configuration this much slower than the best so far is not timed again.
_HOPELESS = 2.0
# The seed of the inputs that a trace is prepared with.
_SEED = 0x9E3779B9
_NO_TIME = -1.0
_LEFT_OUT = -2.0
_NO_CALL = Call(Recipe("", {}, 0), (), (), ())

Build = Callable[[int], Sequence[object]]


class TraceTimer:
    """Times the trace that was prepared last. Passes on all exceptions of preparing and running a trace."""

    def __init__(self, device: torch.device, library: Library) -> None:
        self.device = device
        self._library = library
        self._clock = Clock(device)
        self._cover_bytes = 0
        self._work: _TimedTrace | Graph | None = None
        self._call = _NO_CALL
        self._outputs: tuple[object, ...] = ()
        self.line = 0

    def prepare(self, request: Prepare, traces: Sequence[Trace], build: Build) -> Prepared:
        """Run each trace once, and tune the last. build: makes the inputs of a seed on the device."""
        self._work, self._outputs, self._cover_bytes = None, (), request.cover_bytes
        self._call = request.call
        memory = Memory(self.device, guarded=False)
        _give_back(self.device)
        fill_uninitialised_memory(on=False)
        timed: _TimedTrace | None = None
        try:
            for trace in traces:
                tunes = trace is traces[-1]
                untried = frozenset(request.untried if tunes else ())
                timed = _TimedTrace(
                    self, memory, self._library, trace, request.call, build, tunes=tunes, untried=untried
                )
                timed.place(timed.inputs(_SEED))
                run = timed.run_first()
            assert timed is not None
            self._work = Graph(timed, _SEED) if request.method == "graph" else timed
        finally:
            fill_uninitialised_memory(on=True)
            self.line = timed.line if timed else 0
        return Prepared("prepared", timed.output_forms(), tuple(timed.tuned.values()), len(run.launched))

    def precompile(self, trace: Trace, configuration: int) -> int:
        """Compile the launches of a trace, and return their number.

        configuration: of every autotuner; -1: all, skipping those that do not work.
        """
        return _CompileOnlyRun(self.device, self._library, trace, configuration).launches()

    def sample(self, request: Sample) -> Sampled:
        """Take one sample. Raises ValueError if nothing is prepared."""
        if self._work is None:
            raise ValueError("a sample must be of something prepared, got none")
        self._outputs = ()
        fill_uninitialised_memory(on=False)
        try:
            sampled, self._outputs = self._clock.sample(self._work, request.seed, self._cover_bytes)
            return (
                replace(sampled, changed=self._changed_inputs(self._work, request.seed))
                if request.examines
                else sampled
            )
        finally:
            fill_uninitialised_memory(on=True)

    def _changed_inputs(self, work: _TimedTrace | Graph, seed: int) -> tuple[str, ...]:
        """Return the names of the inputs that the latest sample changed and must not change."""
        fresh, mutates = work.inputs(seed), set(self._call.mutates)
        pairs = zip(self._call.arguments, work.given(), fresh, strict=True)
        return tuple(
            name
            for name, now, before in pairs
            if name not in mutates and isinstance(now, Tensor) and isinstance(before, Tensor)
            if not torch.equal(_elements(now).view(torch.uint8), _elements(before).view(torch.uint8))
        )

    def show(self, request: Show, memory_fd: int) -> BytesShown:
        """Copy bytes of an output of the latest sample into the memory file."""
        output = self._outputs[request.output] if request.output < len(self._outputs) else None
        if not isinstance(output, Tensor):
            return BytesShown("shown", copied=False)
        raw = _elements(output).view(torch.uint8)[request.first : request.first + request.count]
        if raw.numel() != request.count:
            return BytesShown("shown", copied=False)
        with mmap.mmap(memory_fd, 0) as memory:
            memory[: request.count] = raw.cpu().numpy().tobytes()
        return BytesShown("shown", copied=True)

    def time_us(self, work: TimedWork) -> float:
        """Return the time of some work with cold caches, in microseconds."""
        return self._clock.time_us(work, self._cover_bytes)


@dataclass
class _TimedTrace(Uncounted):
    """A trace as timed work. Every run gets new memory; older memory stays."""

    timing: TraceTimer
    memory: Memory
    library: Library
    trace: Trace
    call: Call
    build: Build
    tunes: bool
    untried: frozenset[int] = frozenset()
    tuned: dict[int, TunedChoice] = field(default_factory=dict)
    line: int = 0

    def __post_init__(self) -> None:
        self._kept = self.memory.known()
        self._values: dict[str, object] = {}
        self._known: Kernels | None = None
        self._programs: dict[int, Program] = {}

    @property
    def device(self) -> torch.device:
        """Return the device of tensors."""
        return self.timing.device

    def inputs(self, seed: int) -> Sequence[object]:
        """Return fresh inputs."""
        return self.build(seed)

    @property
    def mutated(self) -> tuple[int, ...]:
        """Return the places of the inputs that are changed."""
        return tuple(self.call.arguments.index(name) for name in self.call.mutates)

    def kernels(self, kernel_texts: tuple[KernelText, ...]) -> Kernels:
        """Return the kernels of the trace."""
        if self._known is None:
            self._known = self.library.kernels(kernel_texts)
        return self._known

    def program(self, place: int, trace: Trace) -> Program:
        """Return a program of the trace."""
        if place not in self._programs:
            self._programs[place] = self.library.program(place, trace)
        return self._programs[place]

    def place(self, inputs: Sequence[object]) -> None:
        """Put inputs where the trace finds them, and overwrite the memory of the run before."""
        self.memory.poison(self.memory.known() - self._kept - set(self.trace.arguments.values()))
        self._values = dict(zip(self.call.arguments, inputs, strict=True))

    def given(self) -> Sequence[object]:
        """Return the inputs of the last run, as they are now."""
        return tuple(self._values.values())

    def run_first(self) -> Run:
        """Run it for the first time: refuse computation by torch, and tune autotuned launches."""
        return self._run(notes=True)

    def run(self) -> Sequence[object]:
        """Run it once; return its outputs, then the arguments that it changes."""
        self._run(notes=False)
        outputs = [self._tensor(output.window) for output in self.trace.outputs]
        return (*outputs, *(self._values[name] for name in self.call.mutates))

    def _run(self, *, notes: bool) -> Run:
        self.memory.drop_but(self._kept)
        self.memory.begin()
        for name, number in self.trace.arguments.items():
            value = self._values[name]
            assert isinstance(value, Tensor)
            self.memory.place_argument(number, bytes_of(value), value)
        run = Run(self, self.trace, notes=notes)
        try:
            run.steps(self.trace.steps)
        finally:
            self.line = run.line
        return run

    def _tensor(self, window: int) -> Tensor | None:
        return self.memory.tensor(self.trace.windows[window]) if window >= 0 else None

    def output_forms(self) -> tuple[Form, ...]:
        """Return the forms of the outputs."""
        own = [
            form_of(tensor) if (tensor := self._tensor(output.window)) is not None else output.form
            for output in self.trace.outputs
        ]
        given = [self._values[name] for name in self.call.mutates]
        return (*own, *(form_of(one) for one in given))

    def choose(self, step: Choose, run: Run) -> None:
        """Execute the fastest configuration; the first time, measure all of them."""
        if not self.tunes:
            first_that_works(step, run, lightest_first(step))
            return
        if id(step) not in self.tuned:
            self.tuned[id(step)] = self._tune(step, run)
        run.steps(step.alternatives[self.tuned[id(step)].chosen])

    def _tune(self, step: Choose, run: Run) -> TunedChoice:
        times: list[float] = []
        raised: Exception | None = None
        left_out = self.untried if any(place not in self.untried for place in range(len(step.alternatives))) else ()
        for place in range(len(step.alternatives)):
            if place in left_out:
                times.append(_LEFT_OUT)
                continue
            try:
                times.append(
                    self._time_alternative(step, place, run, min((one for one in times if one >= 0), default=inf))
                )
            except Exception as refused:
                if not is_passed_over(refused):
                    raise
                raised = refused
                times.append(_NO_TIME)
        working = [place for place, time in enumerate(times) if time >= 0]
        if not working:
            assert raised is not None
            raise raised
        return TunedChoice(step.line, tuple(times), min(working, key=lambda place: times[place]))

    def _time_alternative(self, step: Choose, place: int, run: Run, best_us: float) -> float:
        alternative = _Alternative(self.memory, lambda: run.steps(step.alternatives[place]))
        launched = len(run.launched)
        try:
            # The first run only compiles and warms up.
            alternative.run()
            times = [self.timing.time_us(alternative)]
            while len(times) < _TUNING_SAMPLES and times[0] < _HOPELESS * best_us:
                times.append(self.timing.time_us(alternative))
            return round(median(times), 3)
        finally:
            alternative.forget()
            del run.launched[launched:]


class _CompileOnlyRun(Uncounted):
    """A trace whose launches are compiled and not run, on uninitialised memory."""

    def __init__(self, device: torch.device, library: Library, trace: Trace, configuration: int) -> None:
        self._configuration = configuration
        self.device = device
        self.memory = Blank(device, trace)
        self.kernels, self.program = library.kernels, library.program
        self._trace = trace

    def launches(self) -> int:
        """Compile all launches, and return their number."""
        run = Run(self, self._trace, launches="compile")
        run.steps(self._trace.steps)
        return len(run.launched)

    def choose(self, step: Choose, run: Run) -> None:
        """Compile one alternative; or all, skipping those that do not work."""
        if self._configuration >= 0:
            run.steps(step.alternatives[self._configuration % len(step.alternatives)])
            return
        known = self.memory.known()
        for alternative in step.alternatives:
            self.memory.drop_but(known)
            with suppress(Exception):
                run.steps(alternative)


class Blank(Memory):
    """Memory for a trace that is only compiled: it creates every storage that the trace finds, with any content."""

    def __init__(self, device: torch.device, trace: Trace) -> None:
        super().__init__(device, guarded=False)
        self._sizes: dict[int, int] = {}
        for window in trace.windows:
            self._sizes[window.storage] = max(_end_byte(window), self._sizes.get(window.storage, 0))

    def tensor(self, window: Window) -> Tensor:
        """Return a window as a tensor, and make its storage if it does not exist."""
        if not self.knows(window.storage):
            content = unwritten(self._sizes[window.storage], torch.uint8, self._device)
            self.place_argument(window.storage, content, content)
        return super().tensor(window)

    def lend(self, number: int) -> None:
        """Keep no copy of a kernel's arguments: no kernel runs, and storages may be larger than memory."""


def _end_byte(window: Window) -> int:
    """Return the byte behind the last element of a window."""
    dtype = getattr(torch, window.dtype, None)
    return (
        (window.offset + span(window.shape, window.strides)) * dtype.itemsize if isinstance(dtype, torch.dtype) else 0
    )


class _Alternative:
    """One configuration as timed work, at the trace's current step."""

    def __init__(self, memory: Memory, steps: Callable[[], None]) -> None:
        self._memory = memory
        self._steps = steps
        self._known = memory.known()

    def forget(self) -> None:
        """Forget the memory of the last run."""
        self._memory.drop_but(self._known)

    def inputs(self, seed: int) -> Sequence[object]:  # noqa: ARG002
        """Return nothing: the inputs are the memory of the trace so far."""
        return ()

    def place(self, inputs: Sequence[object]) -> None:
        """Do nothing."""

    @property
    def mutated(self) -> tuple[int, ...]:
        """Return nothing: its changes are not compared."""
        return ()

    def run(self) -> Sequence[object]:
        """Run its steps."""
        self.forget()
        self._steps()
        return ()


def _elements(tensor: Tensor) -> Tensor:
    """Return the elements one after another. As bytes, NaN equals NaN."""
    return tensor.reshape(-1) if tensor.is_contiguous() else tensor.contiguous().reshape(-1)


def _give_back(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.empty_cache()
