"""Run the baselines in a process of their own, which builds the submission's inputs and knows the truth.

The process is trusted, and shares nothing with the submission but the GPU. Its answers carry no tag: the grader knows
what it asked for.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import mmap
import os
import select
import socket
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from grader import machine
from grader.calls.outputs import form_of, items_of
from grader.errors import GradeError
from grader.exercise.catalogue import Entry
from grader.exercise.formula import evaluate
from grader.exercise.model import Part
from grader.exercise.tensors import dtype_name
from grader.judge.truth import Portion, Truth
from grader.protocol.answers import Prepared, Sampled
from grader.protocol.baseline_messages import (
    Ask,
    Begin,
    Failed,
    Gauge,
    Missing,
    PrepareBaseline,
    Rest,
    Rested,
    Reveal,
    Revealed,
)
from grader.protocol.decode import decode
from grader.protocol.frames import TRUSTED_BYTES, Closed, receive, send
from grader.protocol.requests import Recipe, Sample
from grader.replay.clock import Clock, Graph, TimedWork
from grader.speed import baselines
from grader.speed.ceilings import gauge
from grader.speed.exercise_functions import functions_of
from grader.speed.lock import GpuLock

# The seed of a call that nobody times.
_REHEARSAL = 0
# Limits on the work before the first question: poll interval, least cores (with the submission's), share of the
# GPU's memory.
_POLL_S, _LEAST_CORES, _SHARE_OF_MEMORY = 0.05, 4, 0.25


def main(channel_fd: int) -> None:
    """Answer the grader until it closes the channel."""
    channel = socket.socket(fileno=channel_fd)
    message, _ = receive(channel, TRUSTED_BYTES)
    begin = decode(Begin, message)
    try:
        state = _State(Entry(Path(begin.root), begin.name))
    except Exception as failed:
        send(channel, dataclasses.asdict(_failed_message(failed)))
        return
    send(channel, {})
    state.rehearse()
    _build_ahead(state, begin.parts, channel)
    with contextlib.suppress(Closed):
        while True:
            message, descriptors = receive(channel, TRUSTED_BYTES, descriptors=1)
            send(channel, state.answer(message, descriptors))


def _build_ahead(state: _State, parts: tuple[str, ...], channel: socket.socket) -> None:
    """Let baselines build plans and kernels for each size until the first question: answers are judged meanwhile.

    A plan of cuDNN takes a second, a kernel of ours some. While another grader times, nothing is built.
    """
    gpu = machine.find_gpu()
    if gpu is None or len(os.sched_getaffinity(0)) < _LEAST_CORES:
        return
    lock = GpuLock(gpu.uuid)

    def build_until_asked(builds: Sequence[Callable[[], None]]) -> None:
        for build in builds:
            while not select.select([channel], [], [], 0)[0]:
                with contextlib.suppress(GradeError), lock.shared(patience_s=_POLL_S):
                    build()
                    break
            else:
                return

    # The submission's calls need the rest.
    torch.cuda.set_per_process_memory_fraction(_SHARE_OF_MEMORY)
    if groups := state.builds(parts):
        # Nothing is built once it has ended.
        with ThreadPoolExecutor(len(groups), "build ahead") as pool:
            for building in [pool.submit(build_until_asked, builds) for builds in groups]:
                building.result()
    torch.cuda.set_per_process_memory_fraction(1.0)


class _RoundInputs:
    """The inputs of the latest round: all its baselines read the same tensors."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._recipe: Recipe | None = None
        self._values: tuple[object, ...] = ()

    def of(self, recipe: Recipe) -> tuple[object, ...]:
        """Return the inputs of a recipe, built once while it is asked for again and again. Nobody may change them."""
        if recipe != self._recipe:
            self._recipe, self._values = None, ()
            self._values = self._truth.inputs(recipe)
            self._recipe = recipe
        return self._values


class _Baseline:
    """A baseline of one case, as something to be timed.

    inputs_of: builds the inputs of a recipe.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        inputs_of: Callable[[Recipe], tuple[object, ...]],
        request: PrepareBaseline,
    ) -> None:
        self._function = function
        self._inputs_of = inputs_of
        self._request = request
        self._values: tuple[object, ...] = ()

    @property
    def mutated(self) -> tuple[int, ...]:
        """Return the places of the inputs that are changed."""
        return tuple(self._request.arguments.index(name) for name in self._request.mutates)

    def inputs(self, seed: int) -> tuple[object, ...]:
        """Return the inputs of a seed."""
        return self._inputs_of(dataclasses.replace(self._request.recipe, seed=seed))

    def place(self, inputs: Sequence[object]) -> None:
        """Use these inputs from now on."""
        self._values = tuple(inputs)

    def run(self) -> tuple[object, ...]:
        """Call the function; return its outputs, then the arguments that it changes."""
        named = dict(zip(self._request.arguments, self._values, strict=True))
        return (*items_of(self._function(*self._values)), *(named[name] for name in self._request.mutates))


class _State:
    """The state of the process: one exercise, on one device."""

    def __init__(self, entry: Entry) -> None:
        torch.set_num_threads(1)
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._exercise = entry.exercise
        self._baselines = functions_of(entry)
        # torch.compile imports the module of the function that it is given.
        sys.modules[self._baselines.__name__] = self._baselines
        self._entry = entry
        self._begin()
        self._functions: dict[tuple[str, str], Callable[..., Any]] = {}

    def _begin(self) -> None:
        entry = self._entry
        self._truth = Truth.of(entry, self._device.type, keep=1)
        self._round = _RoundInputs(self._truth)
        self._clock = Clock(self._device)
        self._works: dict[str, tuple[TimedWork, int]] = {}
        self._case: tuple[object, ...] = ()
        self._revealed: tuple[object, tuple[Portion, ...]] | None = None

    def _rest(self) -> Rested:
        """Return to the initial state, but keep everything loaded: the next grading finds the device's memory free."""
        self._begin()
        gc.collect()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        return Rested()

    def rehearse(self) -> None:
        """Run every part's baseline once, at its first size: later uses load nothing while the clock runs.

        A baseline that fails here fails again when it is asked for, and is reported then.
        """
        for part in self._exercise.parts:
            for band in part.speed_bands:
                with contextlib.suppress(Exception):
                    recipe = Recipe(part.name, dict(band.suite.named_cases[0]), _REHEARSAL)
                    for name in (band.baseline, *band.shown_beside):
                        baselines.unmet_requirement(name, part.name, self._baselines)
                    self._truth.expect(part, recipe)
                    if baselines.FAMILIES[band.baseline].computes:
                        run = baselines.function_of(band.baseline, part.name, self._baselines)
                        run(*self._truth.inputs(recipe))

    def builds(self, parts: tuple[str, ...]) -> list[list[Callable[[], None]]]:
        """Return a call of every baseline that builds something for a size, at every size.

        They come in groups that may run beside each other. parts: those whose baselines are called; empty for all.
        """
        groups: dict[tuple[str, str], list[Callable[[], None]]] = {}
        for part in self._exercise.parts:
            for band in part.speed_bands if part.name in parts or not parts else ():
                for case, name in product(band.suite.named_cases, (band.baseline, *band.shown_beside)):
                    family = baselines.FAMILIES[name]
                    if family.builds:
                        # What switches a backend of torch switches it for all threads.
                        group = (name, "" if family.switches else part.name)
                        build = partial(self._build, name, Recipe(part.name, dict(case), _REHEARSAL))
                        groups.setdefault(group, []).append(build)
        return list(groups.values())

    def _build(self, name: str, recipe: Recipe) -> None:
        """Call a baseline once. One that fails here fails again when it is asked for, and is reported then."""
        with contextlib.suppress(Exception):
            if not baselines.unmet_requirement(name, recipe.part, self._baselines):
                baselines.function_of(name, recipe.part, self._baselines)(*self._truth.inputs(recipe))
            torch.cuda.synchronize()
            torch.cuda.empty_cache()

    def answer(self, message: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Do what a message asks for. A failure is an answer as well."""
        try:
            return dataclasses.asdict(self._dispatch(message, descriptors))
        except Exception as failed:
            return dataclasses.asdict(_failed_message(failed))
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _dispatch(self, message: dict[str, Any], descriptors: list[int]) -> Any:
        match message.get("op"):
            case PrepareBaseline.op:
                return self._prepare(decode(PrepareBaseline, message))
            case Sample.op:
                return self._sample(decode(Sample, message))
            case Reveal.op:
                return self._reveal(decode(Reveal, message), descriptors[0])
            case Ask.op:
                request = decode(Ask, message)
                return Missing(self._missing(request.recipe, request.baselines))
            case Gauge.op:
                return gauge(self._device)
            case Rest.op:
                return self._rest()
            case other:
                raise ValueError(f"the baseline process must be asked for something it knows, got {other!r}")

    def _missing(self, recipe: Recipe, names: tuple[str, ...]) -> dict[str, str]:
        def arguments() -> tuple[object, ...]:
            return self._truth.inputs(recipe)

        return {name: baselines.why_missing(name, recipe.part, self._baselines, arguments) for name in names}

    def _prepare(self, request: PrepareBaseline) -> Prepared:
        case = request.recipe.part, request.method, *request.recipe.case.items()
        if case != self._case:
            self._works.clear()
            self._round = _RoundInputs(self._truth)
            self._case, self._revealed = case, None
            if self._device.type == "cuda":
                torch.cuda.empty_cache()
        inputs_of = self._truth.inputs if request.mutates else self._round.of
        work: TimedWork = _Baseline(self._function(request), inputs_of, request)
        if request.method == "graph":
            work = Graph(work, _REHEARSAL)
        else:
            work.place(work.inputs(_REHEARSAL))
        outputs = work.run()
        self._works[request.baseline] = work, request.cover_bytes
        return Prepared("prepared", tuple(map(form_of, outputs)))

    def _sample(self, request: Sample) -> Sampled:
        work, cover_bytes = self._works[request.baseline]
        return self._clock.sample(work, request.seed, cover_bytes)[0]

    def _function(self, request: PrepareBaseline) -> Callable[..., Any]:
        part = request.recipe.part
        if not baselines.FAMILIES[request.baseline].computes:
            return self._copy(part, request.recipe)
        key = part, request.baseline
        if key not in self._functions:
            self._functions[key] = baselines.function_of(request.baseline, part, self._baselines)
        return self._functions[key]

    def _copy(self, part: str, recipe: Recipe) -> Callable[..., Any]:
        """Return a device copy that reads and writes, together, as many bytes as the part must move."""
        band = self._part(part).speed_bands[0]
        count = max(1, int(evaluate(band.bytes, recipe.case)) // 16)
        source = torch.empty(count, dtype=torch.int64, device=self._device).random_()
        target = torch.empty_like(source)

        def copy(*_: object) -> Tensor:
            return target.copy_(source)

        return copy

    def _part(self, name: str) -> Part:
        part = self._exercise.part(name)
        assert part is not None
        return part

    def _reveal(self, request: Reveal, memory_fd: int) -> Revealed:
        portion = self._portion(request)
        expected = portion.expected
        part = slice(request.first, request.first + request.count)
        with mmap.mmap(memory_fd, 0) as memory:
            for place, numbers in enumerate((expected.value, expected.allowed)):
                raw = numbers.double().reshape(-1)[part].cpu().numpy().tobytes()
                memory[place * request.count * 8 : place * request.count * 8 + len(raw)] = raw
        return Revealed(dtype_name(expected.dtype), portion.start, expected.value.numel())

    def _portion(self, request: Reveal) -> Portion:
        """Return the requested portion; the portions of the latest call are cached."""
        part, key = self._part(request.recipe.part), (request.recipe, request.chance)
        if self._revealed is None or self._revealed[0] != key:
            self._revealed = None
            found = (
                tuple(Portion(expected, 0) for expected in self._truth.expect(part, request.recipe))
                if request.chance is None
                else self._truth.portion(part, request.recipe, request.chance)
            )
            self._revealed = key, found
        return self._revealed[1][request.output]


def _failed_message(failed: Exception) -> Failed:
    return Failed(f"{type(failed).__name__}: {str(failed)[:600]}")
