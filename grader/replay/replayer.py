"""Does what a trace says, on the true inputs: its allocations, copies and launches, one after another."""

from __future__ import annotations

import dataclasses
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from grader import tensors
from grader.child import launches
from grader.child.announcing import Announcer, announce_compilation
from grader.child.arguments import Arguments
from grader.child.interpreter.corrections import apply_corrections
from grader.child.interpreter.memory import MemoryWatch
from grader.child.interpreter.once import patch_language_once
from grader.child.modes import tensors_in
from grader.child.outputs import copied_out
from grader.child.raising import Raising
from grader.child.tuning import is_passed_over
from grader.child.watching import fill_uninitialised_memory
from grader.protocol import messages
from grader.protocol.decode import decode
from grader.protocol.messages import Answer, Call, Form, Loaded, Raised, Returned, Start
from grader.protocol.operators import NUMBERING
from grader.protocol.trace import (
    Choose,
    Constant,
    Free,
    KernelText,
    Launch,
    Operator,
    Step,
    Trace,
    decode_trace,
)
from grader.replay.arguments import Arguments as Values
from grader.replay.kernels import Kernels, Text
from grader.replay.language import offers
from grader.replay.memory import Computed, Memory, Unreplayable
from grader.replay.operators import operators
from grader.replay.values import Refused

_KEPT_RESULTS = 64
_KEPT_KERNELS = 16
_MOST_CAUSES = 40


class Replayer:
    """One process that replays what one submission's process recorded; both keep memory from call to call.

    guarded: whether tensors lie between guard bands, and what nobody wrote is NaN. around: makes what steps run inside.
    """

    def __init__(
        self,
        start: Start,
        scratch: str,
        device: torch.device,
        announcer: Announcer,
        *,
        guarded: bool = True,
        around: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._start = start
        self._guarded = guarded
        self._around = around
        self._path = str(Path(scratch, start.submission_name))
        Path(self._path).write_text(start.submission, encoding="utf-8")
        self._device = device
        self._arguments = Arguments(device, guarded=guarded)
        self._memory = Memory(device, guarded=guarded)
        self._raising = Raising(self._path)
        self._results: list[int] = []
        self._watch: MemoryWatch | None = None
        self._text: Text | None = None
        # Those of the latest traces, newest last.
        self._kernels: list[tuple[tuple[KernelText, ...], Kernels]] = []
        # Which configuration worked the last time, by the launch's line and the number of configurations.
        self._chosen: dict[tuple[int, int], int] = {}
        self._builders = tensors.module_from_text("inputs.py", start.inputs)
        if device.type == "cuda":
            announce_compilation(announcer)
        else:
            apply_corrections()
            self._watch = MemoryWatch()
            self._watch.install()
            offers()
            patch_language_once()
        fill_uninitialised_memory(on=guarded)

    def load(self) -> Loaded:
        """Say that there is nothing to load: the submission's file is only read."""
        return Loaded("loaded", (), ())

    def answer(self, message: dict[str, Any], descriptors: list[int], channel: socket.socket) -> Answer:  # noqa: ARG002
        """Replay one call."""
        trace = decode_trace(message.pop("trace"))
        replay = decode(messages.Replay, {**message, "trace": {}})
        kept = self._memory, self._results
        if replay.memory == "alone":
            self._memory, self._results = Memory(self._device, guarded=self._guarded), []
        try:
            return self._replayed(replay, trace, descriptors[0])
        finally:
            os.close(descriptors[0])
            if replay.memory == "alone":
                self._memory, self._results = kept

    def _replayed(self, replay: messages.Replay, trace: Trace, memory_fd: int) -> Returned | Raised:
        call = replay.call
        if replay.memory == "afresh":
            self._memory.forget()
            self._results.clear()
        run = _Run(self, trace, launches=replay.launches)
        try:
            self._place(call, trace)
            with self._around():
                for step in trace.steps:
                    run.step(step)
                if self._device.type == "cuda":
                    torch.cuda.synchronize()
            return self._returned(call, trace, run, memory_fd)
        except Computed as computed:
            told = self._raising.refused(str(computed), run.line)
            return dataclasses.replace(told, kind=messages.COMPUTED)
        except Unreplayable as unreplayable:
            return Raised("raised", "crash", "Unreplayable", str(unreplayable)[:2000], ())
        except Exception as raised:
            if refused := _refusal_in(raised):
                told = self._raising.refused(refused.rule, refused.line, launched_at=run.line)
                return told if refused.python else dataclasses.replace(told, kind=messages.UNTOLD)
            return self._raising.told(raised, findings=self._findings(), launched_at=run.line)

    def _place(self, call: Call, trace: Trace) -> None:
        recipe = call.recipe
        builder = getattr(self._builders, recipe.part)
        drawn_on = self._device if call.drawn_on == "device" else "cpu"
        values = tensors.build(builder, recipe.case, recipe.seed, recipe.patch_seed, drawn_on)
        self._arguments.place(call.arguments, values, call.storage, call.carries)
        self._memory.begin()
        if set(trace.arguments) != set(self._arguments.tensors):
            raise Unreplayable(f"a trace must name the tensor arguments, got {sorted(trace.arguments)}")
        for name, number in trace.arguments.items():
            buffer, dtype = self._arguments.buffer(name), self._arguments.tensor(name).dtype
            self._memory.place_argument(number, buffer, dtype, self._arguments.skipped_bytes)

    def _returned(self, call: Call, trace: Trace, run: _Run, memory_fd: int) -> Returned:
        given = frozenset(trace.arguments.values())
        outputs: list[tuple[Form, Tensor | None]] = []
        for output in trace.outputs:
            storage = trace.windows[output.window].storage if output.window >= 0 else -1
            alias = self._alias(trace.arguments, storage) if output.form.kind == "tensor" else ""
            tensor, form = None, output.form
            if output.window >= 0:
                tensor = self._memory.tensor(trace.windows[output.window])
                # Where a tensor lay, only the recorder knows.
                form = dataclasses.replace(_form_of(tensor), device=form.device)
            outputs.append((dataclasses.replace(form, alias=alias, copied=False), tensor))
            if storage >= 0 and storage not in given:
                self._results = [*self._results, storage][-_KEPT_RESULTS:]
        outputs += [(_form_of(one), one) for one in map(self._arguments.tensor, call.mutates)]
        forms = copied_out(outputs, call.slots, memory_fd, self._device.type)
        changed, overrun = self._arguments.disturbed(call.mutates)
        overrun += self._memory.overrun()
        launched, findings = tuple(run.launched), self._findings()
        return Returned("returned", forms, changed, overrun, launched, (), findings, self._memory.most_bytes)

    def _alias(self, arguments: Mapping[str, int], storage: int) -> str:
        for name, number in arguments.items():
            if number == storage:
                return f"argument {name}"
        return "an earlier result" if storage in self._results else ""

    def _findings(self) -> tuple[messages.Finding, ...]:
        return self._watch.take() if self._watch else ()

    # -- what a run asks for -----------------------------------------------------------------------------------------

    def kernels(self, told: tuple[KernelText, ...]) -> Kernels:
        """Return the kernels of a trace; those of an earlier one where they are the same. Raises Refused."""
        self._text = self._text or Text(self._start.submission, self._path)
        kernels = next((known for texts, known in self._kernels if texts == told), None) or Kernels(self._text, told)
        others = [one for one in self._kernels if one[1] is not kernels]
        self._kernels = [*others, (told, kernels)][-_KEPT_KERNELS:]
        return kernels

    @property
    def memory(self) -> Memory:
        """Return the storages of all calls."""
        return self._memory

    @property
    def device(self) -> torch.device:
        """Return where tensors lie."""
        return self._device

    def traffic(self) -> messages.Traffic | None:
        """Return what the latest launch moved, where that is counted."""
        return self._watch.traffic if self._watch else None

    def first_choice(self, step: Choose) -> int:
        """Return the configuration that worked when this line was last replayed."""
        return self._chosen.get((step.line, len(step.alternatives)), 0)

    def choose(self, step: Choose, place: int) -> None:
        """Remember the configuration that worked."""
        self._chosen[step.line, len(step.alternatives)] = place


class _Run:
    """The replay of one trace. line: of the submission, where it asked for what is running now."""

    def __init__(self, replayer: Replayer, trace: Trace, *, launches: bool) -> None:
        self._replayer = replayer
        self._trace = trace
        self._launches = launches
        self._values = Values(self._tensor, self._kernel, replayer.device)
        self.line = 0
        self.launched: list[messages.Launch] = []
        # The windows that the step at hand was given.
        self._met: list[int] = []

    def step(self, step: Step) -> None:
        """Do what one step says."""
        match step:
            case Operator():
                self._operator(step)
            case Constant():
                self._replayer.memory.place_constant(step)
            case Launch():
                self._launch(step)
            case Choose():
                self._choose(step)
            case Free(storages):
                self._replayer.memory.free(storages)

    def _operator(self, step: Operator) -> None:
        operator = operators().get(step.name)
        if operator is None:
            raise Unreplayable(f"an operator must be one that does no part of the work, got {step.name}")
        self.line = step.line
        self._met.clear()
        results = tensors_in(operator(step, self._values))
        memory = self._replayer.memory
        whole = all(memory.is_whole(self._trace.windows[index]) for index in self._met)
        name = step.name.partition(".")[0]
        if name in NUMBERING and not whole:
            raise Computed(f"aten.{name}")
        self.line = 0
        for place, result in zip(step.results, results, strict=True):
            window = self._trace.windows[place]
            made = (str(result.dtype).removeprefix("torch."), tuple(result.shape), tuple(result.stride()))
            if made != (window.dtype, window.shape, window.strides):
                raise Unreplayable(f"{step.name} must make {window}, got {made}")
            if not memory.knows(window.storage):
                memory.adopt(window.storage, result)
            if not whole:
                memory.taint(window.storage)

    def _launch(self, step: Launch) -> None:
        if not self._launches:
            return
        self.line = step.line
        self._met.clear()
        kernel = self._kernel(step.kernel)
        value = self._values.of_launch
        names = list(kernel.arg_names)
        open_names = set(names) - launches.constant_names(kernel)
        named = [*zip(names, step.args, strict=False), *step.kwargs.items()]
        try:
            given = {name: value(one) for name, one in named if name in open_names}
        except Refused as refused:
            # A compiler knows no type for it.
            raise Refused(refused.line, refused.rule, python=True) from None
        given |= {name: value(one) for name, one in named if name not in open_names}
        args, kwargs = [given[name] for name in names[: len(step.args)]], {name: given[name] for name in step.kwargs}
        options = {name: value(one) for name, one in step.options.items()}
        told = messages.Launch(
            launches.name_of(kernel), step.grid, launches.constants(kernel, launches.bound(kernel, args, kwargs))
        )
        self.launched.append(told)
        for index in self._met:
            # It may store there, but not into an argument without being noticed.
            storage = self._trace.windows[index].storage
            if storage not in self._trace.arguments.values():
                self._replayer.memory.taint(storage)
        try:
            kernel.run(*args, grid=step.grid, warmup=False, **kwargs, **options)
        finally:
            self.launched[-1] = dataclasses.replace(told, traffic=self._replayer.traffic())
        self.line = 0

    def _choose(self, step: Choose) -> None:
        """Do what the first configuration does that works."""
        first = self._replayer.first_choice(step)
        count = len(step.alternatives)
        for place in range(first, count):
            before = len(self.launched)
            try:
                for inner in step.alternatives[place]:
                    self.step(inner)
            except Exception as refused:
                if not is_passed_over(refused) or place == count - 1:
                    raise
                del self.launched[before:]
            else:
                self._replayer.choose(step, place)
                return

    def _kernel(self, index: int) -> Any:
        return self._replayer.kernels(self._trace.kernels).kernel(index)

    def _tensor(self, index: int) -> Tensor:
        self._met.append(index)
        return self._replayer.memory.tensor(self._trace.windows[index])


def _refusal_in(raised: BaseException) -> Refused | None:
    """Return the refusal that led to an exception: interpreter and compiler wrap what a kernel's functions raise."""
    link: BaseException | None = raised
    for _ in range(_MOST_CAUSES):
        if link is None or isinstance(link, Refused):
            return link
        link = link.__cause__ or link.__context__
    return None


def _form_of(tensor: Tensor) -> Form:
    return Form("tensor", str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), tensor.device.type)
