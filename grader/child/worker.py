"""Run the submission: load its file, answer calls and report. Its reports are claims, not verdicts."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import socket
import sys
import types
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from triton.runtime.driver import driver

from grader.calls import cutedsl
from grader.calls.arguments import PlacedArguments
from grader.calls.filling import fill_uninitialised_memory
from grader.calls.launch_observer import LaunchObserver
from grader.calls.modes import unobserved
from grader.calls.outputs import MOST_OUTPUTS, copied_out, form_of, items_of, place_of
from grader.calls.raising import Raising
from grader.calls.storage import has_storage
from grader.calls.tuning import Tuning
from grader.compile.announcing import Announcer, announce_compilation
from grader.compile.cute import trace_for
from grader.compile.disguise import Disguise, has_asked, pretend
from grader.compile.driver import stand_in
from grader.compile.values import WithoutValues
from grader.exercise import tensors
from grader.files import write_atomically
from grader.gpus import ARCHITECTURES, USUAL
from grader.interpreter import contract
from grader.interpreter.corrections import answer_launchers, apply_corrections
from grader.interpreter.memory import MemoryWatch
from grader.interpreter.once import patch_language_once
from grader.protocol.answers import Answer, Form, Loaded, Raised, Ready, Returned
from grader.protocol.decode import decode
from grader.protocol.frames import TRUSTED_BYTES, Closed, receive, send
from grader.protocol.observations import GuardFinding
from grader.protocol.requests import Call, Recipe, RecordCall, Start
from grader.protocol.trace import Recorded
from grader.recorder.recorder import Recorder
from grader.replay.replayer import Replayer, look_up_names

_KEPT_RESULTS = 8


def preload() -> None:
    """Import the modules of every child, in the fork server. Starts no thread and touches no GPU."""
    from grader.child.warmup import double

    torch.set_num_threads(1)
    # On a GPU an overflow gives no Python warning, so the interpreter's NumPy must give none.
    np.seterr(all="ignore")
    if _interpreted():
        contract.require()
        double(torch.ones(1))
        # The same in every child: made once, and inherited.
        apply_corrections()
        # At its first use, NumPy imports masked arrays.
        np.unique(np.zeros(1))
    look_up_names()
    with unobserved():
        # At its first use, torch imports modules.
        pass


def serve(
    channel: socket.socket,
    scratch: str,
    isolation: tuple[str, ...],
    employ: Callable[..., Worker | Replayer] | None = None,
) -> None:
    """Answer the grader until it closes the channel. employ: makes a worker of another kind."""
    device = torch.device("cuda" if os.environ.get("CUDA_VISIBLE_DEVICES") != "" else "cpu")
    message, descriptors = receive(channel, TRUSTED_BYTES, descriptors=1)
    start = decode(Start, message)
    kind = employ or (Replayer if start.role == "replay" else Worker)
    worker = kind(start, scratch, device, Announcer(descriptors[0]))
    _answer(channel, Ready("ready", isolation, device.type))
    _answer(channel, worker.load())
    while True:
        try:
            message, descriptors = receive(channel, TRUSTED_BYTES, descriptors=1)
        except Closed:
            return
        _answer(channel, worker.answer(message, descriptors))


def _interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"


def _answer(channel: socket.socket, answer: Answer | Recorded) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    if isinstance(answer, Recorded | Raised):
        answer = dataclasses.replace(answer, asked=has_asked())
    # A trace is data already, and large.
    send(channel, answer.message() if isinstance(answer, Recorded) else dataclasses.asdict(answer))


class Worker:
    """One submission in one process."""

    def __init__(self, start: Start, scratch: str, device: torch.device, announcer: Announcer) -> None:
        self._start = start
        self._announcer = announcer
        self._path = str(Path(scratch, start.submission_name))
        self._device = device
        self._arguments = PlacedArguments(self._device)
        self._results: list[Tensor] = []
        self._raising = Raising(self._path)
        self._launches = LaunchObserver()
        self._tuning = Tuning(self._launches)
        self._recorder = Recorder(self._path, device)
        self._memory: MemoryWatch | None = None
        self._is_in_lockstep = False
        # Without a GPU, tensors pretend to be on one: launch code then takes the same branches as there.
        self._pretending: Callable[[], AbstractContextManager[object]] = nullcontext
        self._install_watches()
        self._install_cute()
        # What is only compiled needs no values: filling would touch all pages of large tensors.
        fill_uninitialised_memory(on=not start.target)
        cutedsl.stand_in_for_missing(start.packages)
        self._decoys = PlacedArguments(self._device)
        self._cpu_decoys = PlacedArguments(torch.device("cpu"))
        self._cpu_arguments = PlacedArguments(torch.device("cpu"))
        self._inputs = tensors.module_from_text("inputs.py", start.inputs)
        self._submission = types.ModuleType("submission")
        write_atomically(Path(self._path), start.submission)

    def _install_watches(self) -> None:
        if self._start.target:
            target = ARCHITECTURES[self._start.target]
            driver.set_active(stand_in(target))
            pretend(target)
            self._pretending = Disguise
        elif _interpreted():
            apply_corrections()
            if self._start.multiprocessors:
                answer_launchers(self._start.multiprocessors)
            self._memory = MemoryWatch()
            self._memory.install()
            self._pretending = Disguise
        else:
            announce_compilation(self._announcer)
        self._tuning.install()
        self._launches.install()
        # Outermost: a recorded launch does not run, and reaches no other watcher.
        self._recorder.install()

    def _install_cute(self) -> None:
        if cutedsl.PACKAGE not in self._start.packages or not cutedsl.is_installed(cutedsl.PACKAGE):
            return
        cutedsl.watch(self._launches.note_foreign)
        # Outermost: a recorded function is not compiled.
        self._recorder.install_cute()
        if self._start.target or _interpreted():
            trace_for(ARCHITECTURES[self._start.target] if self._start.target else USUAL)

    def load(self) -> Loaded | Raised:
        """Execute the submission's file and return the functions that it defines."""
        name = Path(self._path).stem
        spec = importlib.util.spec_from_file_location(name, self._path)
        assert spec is not None
        assert spec.loader is not None
        self._submission = importlib.util.module_from_spec(spec)
        sys.modules[name] = self._submission
        try:
            with self._pretending():
                spec.loader.exec_module(self._submission)
        except BaseException as raised:
            return self._raising.describe(raised, loading=True)
        public = [
            found
            for found, value in vars(self._submission).items()
            if callable(value) and not found.startswith("_") and getattr(value, "__module__", "") == name
        ]
        defined = tuple(found for found in self._start.functions if callable(getattr(self._submission, found, None)))
        others = tuple(found[:80] for found in public if found not in defined)[:20]
        return Loaded("loaded", defined, others)

    def answer(self, message: dict[str, Any], descriptors: list[int]) -> Answer | Recorded:
        """Do the job that a message of the grader asks for, and return the answer."""
        try:
            match message.get("op"):
                case RecordCall.op:
                    return self._record(decode(RecordCall, message))
                case _:
                    return self.call(decode(Call, message), descriptors[0])
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _record(self, request: RecordCall) -> Recorded | Raised:
        """Call one function on decoys and return its trace; its kernels are not run."""
        call = request.call
        function: Callable[..., object] = getattr(self._submission, call.recipe.part)
        if request.afresh:
            self._recorder.forget()
        if request.inputs != "guarded":
            # They are not checked.
            self._decoys = PlacedArguments(self._device, guarded=False)
        placed = self._cpu_decoys if call.on_cpu else self._decoys
        if request.inputs == "timed":
            with self._without_values():
                arguments = list(self._build(call.recipe, "cpu" if call.on_cpu else self._device))
        else:
            values = self._build(call.recipe)
            arguments = placed.place(call.arguments, values, call.storage, call.carries)
        given = {name: one for name, one in zip(call.arguments, arguments, strict=True) if isinstance(one, Tensor)}
        if call.tensors == "cute":
            arguments = cutedsl.handed_over(arguments)
        try:
            with nullcontext() if call.on_cpu else self._pretending(), self._without_values():
                recording, result = self._recorder.record(lambda: self._called(function, call.given(arguments)), given)
            # No kernel has run, so something else wrote it.
            for name in placed.disturbed(call.mutates)[0]:
                recording.note_outside_work(f"a write to {name}")
            outputs = [(form_of(one), one) for one in items_of(result)[:MOST_OUTPUTS]]
            # If only launches matter, values of unknown memory are not recorded: some would be too large.
            return recording.to_message(outputs, with_values=not self._start.target)
        except BaseException as raised:
            return self._raising.describe(raised)

    def _without_values(self) -> AbstractContextManager[object]:
        """Return a context for a call that is only compiled: values do not matter, and sizes may be large."""
        return WithoutValues() if self._start.target else nullcontext()

    def call(self, call: Call, memory_fd: int) -> Returned | Raised:
        """Run one function once and copy its outputs into the memory file."""
        function: Callable[..., object] = getattr(self._submission, call.recipe.part)
        if not call.on_cpu:
            self._run_in_lockstep()
        values = self._build(call.recipe)
        placed = self._cpu_arguments if call.on_cpu else self._arguments
        arguments = placed.place(call.arguments, values, call.storage, call.carries)
        if call.tensors == "cute":
            arguments = cutedsl.handed_over(arguments)
        try:
            with nullcontext() if call.on_cpu else self._pretending(), self._launches.observe() as launched:
                result = self._called(function, call.given(arguments))
                self._synchronise()
            if call.chooses:
                result = place_of(result, values[call.arguments.index(call.chooses)])
            forms = self._copied_out(call, items_of(result), placed, memory_fd)
            changed, overrun = placed.disturbed(call.mutates)
        except BaseException as raised:
            return self._raising.describe(raised, findings=self._findings())
        return Returned("returned", forms, changed, overrun, tuple(launched), self._findings())

    def _run_in_lockstep(self) -> None:
        """Run many programs of a launch at once from now on. Calls that are only recorded do without."""
        if self._memory is not None and not self._is_in_lockstep:
            patch_language_once()
            self._memory.run_in_lockstep()
            self._is_in_lockstep = True

    def _called(self, function: Callable[..., object], arguments: list[object]) -> object:
        """Return the function's result, or raise an exception with the line."""
        try:
            return function(*arguments)
        except BaseException as raised:
            better = cutedsl.located(raised, self._path, lambda: function(*arguments))
            if better is raised:
                raise
            raise better from None

    def _build(self, recipe: Recipe, device: torch.device | str = "cpu") -> tuple[object, ...]:
        return tensors.build(self._inputs, recipe.part, recipe.case, recipe.seed, recipe.patch_seed, device)

    def _synchronise(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize()

    def _findings(self) -> tuple[GuardFinding, ...]:
        return self._memory.take() if self._memory else ()

    def _copied_out(
        self, call: Call, returned: tuple[object, ...], placed: PlacedArguments, memory_fd: int
    ) -> tuple[Form, ...]:
        outputs = [
            (form_of(one, self._alias(one)), one if isinstance(one, Tensor) else None)
            for one in (*returned, *map(placed.tensor, call.mutates))
        ]
        device = "cpu" if call.on_cpu else self._device.type
        forms = copied_out(outputs, call.slots, memory_fd, device)
        tensors_returned = [one for one in returned if isinstance(one, Tensor) and has_storage(one)]
        self._results = [*self._results, *tensors_returned][-_KEPT_RESULTS:]
        return forms

    def _alias(self, output: object) -> str:
        if type(output) is not Tensor or not has_storage(output) or output.numel() == 0:
            return ""
        if owner := self._arguments.owner(output):
            return f"argument {owner}"
        address = output.untyped_storage().data_ptr()
        if any(earlier.untyped_storage().data_ptr() == address for earlier in self._results):
            return "an earlier result"
        return ""
