"""Runs the submission: loads its file, answers calls, reports what happened. Its reports are claims, not verdicts."""

from __future__ import annotations

import dataclasses
import importlib.util
import mmap
import os
import socket
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader import tensors
from grader.child import cutedsl, evidence
from grader.child.announcing import Announcer, announce_compilation
from grader.child.arguments import Arguments
from grader.child.compiling import Compiler
from grader.child.evidence import Probe, Seen, fill_uninitialised_memory
from grader.child.interpreter import contract
from grader.child.interpreter.corrections import apply_corrections
from grader.child.stopwatch import Stopwatch, form_of
from grader.child.tuning import Tuning
from grader.protocol.decode import decode
from grader.protocol.frames import TRUSTED_BYTES, Closed, receive, send
from grader.protocol.messages import (
    Answer,
    Call,
    Clocked,
    Compile,
    Compiled,
    Form,
    Frame,
    Loaded,
    Open,
    Opened,
    Raised,
    Ready,
    Recipe,
    Returned,
    Slot,
    Start,
    Timed,
)

_KEPT_RESULTS = 8
_MOST_FRAMES = 6
_MOST_TEXT = 2000


def preload() -> None:
    """Import, in the fork server, what every child needs; nothing here may start a thread or touch a GPU."""
    from grader.child.warmup import double

    torch.set_num_threads(1)
    # A kernel's overflow is no Python warning on a GPU, and must not be one in the interpreter's NumPy.
    np.seterr(all="ignore")
    if _interpreted():
        contract.require()
        double(torch.ones(1))
    evidence.prepare(interpreted=_interpreted())


def serve(
    channel: socket.socket, scratch: str, isolation: tuple[str, ...], employ: Callable[..., Worker] | None = None
) -> None:
    """Answer the grader until it closes the channel; `employ` makes a worker of another kind."""
    device = torch.device("cuda" if os.environ.get("CUDA_VISIBLE_DEVICES") != "" else "cpu")
    message, descriptors = receive(channel, TRUSTED_BYTES, descriptors=1)
    worker = (employ or Worker)(decode(Start, message), scratch, device, Announcer(descriptors[0]))
    _answer(channel, Ready("ready", isolation, device.type))
    _answer(channel, worker.load())
    while True:
        try:
            message, descriptors = receive(channel, TRUSTED_BYTES, descriptors=1)
        except Closed:
            return
        _answer(channel, worker.answer(message, descriptors, channel))


def _interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"


def _answer(channel: socket.socket, answer: Answer) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    send(channel, dataclasses.asdict(answer))


class Worker:
    """One submission in one process."""

    def __init__(self, start: Start, scratch: str, device: torch.device, announcer: Announcer) -> None:
        self._start = start
        self._announcer = announcer
        self._path = str(Path(scratch, start.submission_name))
        self._device = device
        self._arguments = Arguments(self._device)
        self._results: list[Tensor] = []
        self._probe = Probe(self._device, interpreted=_interpreted())
        self._tuning = Tuning(self._probe)
        if _interpreted():
            apply_corrections()
        # A process that only compiles needs no watching: nothing in it is judged.
        self._compiler = Compiler(start.target, self._path) if start.target else None
        if not self._compiler:
            self._tuning.install()
            if not _interpreted():
                announce_compilation(announcer)
        (self._compiler or self._probe).install()
        self._cute: cutedsl.Watch | None = None
        if cutedsl.PACKAGE in start.packages and cutedsl.is_installed(cutedsl.PACKAGE):
            if self._compiler:
                self._compiler.install_cute()
            else:
                self._cute = cutedsl.Watch(self._probe.around)
                self._cute.install()
        fill_uninitialised_memory(on=True)
        cutedsl.stand_in_for_missing(start.packages)
        self._cpu_arguments = Arguments(torch.device("cpu"))
        self._stopwatch = Stopwatch(device, lambda recipe: self._build(recipe, device))
        self._builders = _module_from_text("grade_inputs", start.inputs)
        self._submission = types.ModuleType("submission")
        self._write_down()

    def _write_down(self) -> None:
        # In one step: another process of the same submission may be reading it.
        unfinished = Path(f"{self._path}.{os.getpid()}")
        unfinished.write_text(self._start.submission, encoding="utf-8")
        unfinished.replace(self._path)

    def load(self) -> Loaded | Raised:
        """Execute the submission's file and say which functions it defines."""
        name = Path(self._path).stem
        spec = importlib.util.spec_from_file_location(name, self._path)
        assert spec is not None
        assert spec.loader is not None
        self._submission = importlib.util.module_from_spec(spec)
        sys.modules[name] = self._submission
        try:
            with self._compiler.pretending() if self._compiler else nullcontext():
                spec.loader.exec_module(self._submission)
        except BaseException as raised:
            return self._raised(raised, loading=True)
        public = [
            found
            for found, value in vars(self._submission).items()
            if callable(value) and not found.startswith("_") and getattr(value, "__module__", "") == name
        ]
        defined = tuple(found for found in self._start.functions if callable(getattr(self._submission, found, None)))
        others = tuple(found[:80] for found in public if found not in defined)[:20]
        return Loaded("loaded", defined, others)

    def answer(self, message: dict[str, Any], descriptors: list[int], channel: socket.socket) -> Answer:
        """Do what a message of the grader's asks for."""
        # The answer to a sealed call has gone: now its memory may be looked at.
        self._probe.sealing.end()
        try:
            match message.get("op"):
                case Timed.op:
                    return self.timed(decode(Timed, message), channel)
                case Open.op:
                    return self._open(decode(Open, message), descriptors[0])
                case Compile.op:
                    return self._compile(decode(Compile, message))
                case _:
                    return self.call(decode(Call, message), descriptors[0])
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def timed(self, timed: Timed, channel: socket.socket) -> Clocked | Raised:
        """Run one function once, by the clock; without the guards and fills that would be timed as well."""
        fill_uninitialised_memory(on=False)
        try:
            function = getattr(self._submission, timed.function)
            with self._tuning.by_timing():
                prepared = self._stopwatch.prepare(timed, function, self._watched_lightly)
                sys.stdout.flush()
                sys.stderr.flush()
                return self._stopwatch.answer(prepared, channel)
        except BaseException as raised:
            return self._raised(raised, loading=False)
        finally:
            fill_uninitialised_memory(on=True)

    @contextmanager
    def _watched_lightly(self) -> Iterator[Seen]:
        if self._cute:
            self._cute.begin()
        with self._probe.watch(timed=True) as seen:
            yield seen

    def _open(self, wanted: Open, memory_fd: int) -> Opened | Raised:
        try:
            return self._stopwatch.show(wanted, memory_fd)
        except BaseException as raised:
            return self._raised(raised, loading=False)

    def _compile(self, wanted: Compile) -> Compiled | Raised:
        """Call one function with its launches compiled only, and announce each kernel before it is compiled."""
        assert self._compiler is not None
        try:
            function = getattr(self._submission, wanted.recipe.part)
            values = self._build(wanted.recipe)
            every = wanted.every_configuration
            return self._compiler.compile(lambda: function(*values), self._announcer, every=every)
        except BaseException as raised:
            return self._raised(raised, loading=False)

    def call(self, call: Call, memory_fd: int) -> Returned | Raised:
        """Run one function once and copy its outputs into the memory file."""
        function: Callable[..., object] = getattr(self._submission, call.recipe.part)
        values = self._build(call.recipe)
        placed = self._cpu_arguments if call.on_cpu else self._arguments
        arguments = placed.place(call.arguments, values, call.storage, call.carries)
        if self._cute:
            self._cute.begin()
        if call.tensors == "cute":
            arguments = cutedsl.handed_over(arguments)
        try:
            self._seal(call, placed)
            with self._probe.watch() as seen:
                result = self._called(function, arguments)
                self._synchronise()
            if call.chooses:
                result = _place_of(result, values[call.arguments.index(call.chooses)])
            returned = _items_of(result)
            outputs = [*returned, *(placed.tensor(name) for name in call.mutates)]
            forms = self._copy_out(outputs, call.slots, memory_fd, len(returned), "cpu" if call.on_cpu else "")
            # Arguments that are sealed still show the decoy.
            changed, overrun = ((), ()) if self._probe.sealing.is_active else placed.disturbed(call.mutates)
            overrun += self._probe.overrun()
        except BaseException as raised:
            return self._raised(raised, loading=False)
        launches, operators = tuple(seen.launches), tuple(seen.operators)[:64]
        findings = self._probe.findings()
        return Returned("returned", forms, changed, overrun, launches, operators, findings, seen.allocated_bytes)

    def _called(self, function: Callable[..., object], arguments: list[object]) -> object:
        """What the function returns; or an exception that knows the line."""
        try:
            return function(*arguments)
        except BaseException as raised:
            better = cutedsl.located(raised, self._path, lambda: function(*arguments))
            if better is raised:
                raise
            raise better from None

    def _seal(self, call: Call, placed: Arguments) -> None:
        """In a sealed call, the arguments show the values of another seed to everything but the kernels."""
        if call.decoy_seed is not None:
            decoy = dataclasses.replace(call.recipe, seed=call.decoy_seed, patch_seed=None)
            self._probe.seal(placed.decoys(self._build(decoy)))

    def _build(self, recipe: Recipe, device: torch.device | str = "cpu") -> tuple[object, ...]:
        builder = getattr(self._builders, recipe.part)
        return tensors.build(builder, recipe.case, recipe.seed, recipe.patch_seed, device)

    def _synchronise(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize()

    def _copy_out(
        self, outputs: list[object], slots: tuple[Slot, ...], memory_fd: int, returned: int, device: str = ""
    ) -> tuple[Form, ...]:
        forms = []
        memory = mmap.mmap(memory_fd, 0) if slots else None
        for i, output in enumerate(outputs[:16]):
            form = form_of(output)
            if form.kind == "tensor" and i < returned:
                form = dataclasses.replace(form, alias=self._alias(output))
            if memory is not None and i < len(slots) and self._fits(form, slots[i], device):
                assert isinstance(output, Tensor)
                true = self._probe.sealing.content(output)
                raw = tensors.bytes_of(true).cpu().numpy()
                memory[slots[i].offset : slots[i].offset + slots[i].nbytes] = raw.tobytes()
                form = dataclasses.replace(form, copied=True)
            forms.append(form)
        kept = [output for output in outputs[:returned] if isinstance(output, Tensor)]
        self._results = [*self._results, *kept][-_KEPT_RESULTS:]
        return tuple(forms)

    def _fits(self, form: Form, slot: Slot, device: str) -> bool:
        right_form = form.dtype == slot.dtype and form.shape == slot.shape
        return form.kind == "tensor" and form.device == (device or self._device.type) and right_form

    def _alias(self, output: object) -> str:
        if type(output) is not Tensor or output.numel() == 0:
            return ""
        if owner := self._arguments.owner(output):
            return f"argument {owner}"
        address = output.untyped_storage().data_ptr()
        if any(earlier.untyped_storage().data_ptr() == address for earlier in self._results):
            return "an earlier result"
        return ""

    def _raised(self, raised: BaseException, *, loading: bool) -> Raised:
        origin = _origin(raised)
        frames = self._frames(raised)
        findings = self._probe.findings()
        if refused := cutedsl.refusal_in(origin, self._path):
            if refused.line:
                frames = (*frames, self._frame_at(refused.line))
            kind = type(origin).__name__[:80]
            return Raised(
                "raised", "compile_error", kind, _cut(refused.text), frames[-_MOST_FRAMES:], findings=findings
            )
        verdict = _verdict(origin, loading=loading, from_submission=self._in_submission(origin))
        fatal = "CUDA error" in _message(raised) or type(origin).__name__ == "AcceleratorError"
        return Raised("raised", verdict, type(origin).__name__[:80], _message(origin), frames, fatal, findings)

    def _frames(self, raised: BaseException) -> tuple[Frame, ...]:
        """The lines of the submission's file on the way to the error, outermost first, over all causes."""
        if isinstance(raised, SyntaxError) and raised.filename == self._path:
            return (Frame(raised.lineno or 0, "<module>", (raised.text or "").strip()[:200]),)
        found: dict[tuple[int, str], Frame] = {}
        link: BaseException | None = raised
        seen: set[int] = set()
        while link is not None and id(link) not in seen:
            seen.add(id(link))
            for entry in traceback.extract_tb(link.__traceback__):
                if entry.filename == self._path:
                    frame = Frame(entry.lineno or 0, entry.name[:80], (entry.line or "")[:200])
                    found.setdefault((frame.line, frame.function), frame)
            link = link.__cause__
        return tuple(found.values())[-_MOST_FRAMES:]

    def _frame_at(self, line: int) -> Frame:
        lines = Path(self._path).read_text(encoding="utf-8").splitlines()
        return Frame(line, "", lines[line - 1].strip()[:200] if line <= len(lines) else "")

    def _in_submission(self, raised: BaseException) -> bool:
        entries = traceback.extract_tb(raised.__traceback__)
        return bool(entries) and entries[-1].filename == self._path


def _items_of(result: object) -> tuple[object, ...]:
    """What was returned, one after another. An iterator of the result's own could compute while it is asked."""
    if isinstance(result, tuple):
        return (*tuple.__iter__(result),)
    if isinstance(result, list):
        return (*list.__iter__(result),)
    return () if result is None else (result,)


def _place_of(chosen: object, things: Any) -> Tensor | object:
    """Where among the things the chosen one is; what is none of them stays what it is."""
    for place, thing in enumerate(things):
        if chosen is thing or (type(chosen) is type(thing) and chosen == thing):
            return torch.tensor(place)
    return chosen if chosen is not None else "nothing"


def _module_from_text(name: str, text: str) -> types.ModuleType:
    module = types.ModuleType(name)
    exec(compile(text, f"<{name}>", "exec"), vars(module))
    return module


def _origin(raised: BaseException) -> BaseException:
    """The exception behind triton's wrappers, which repeat it as text."""
    for _ in range(_MOST_FRAMES):
        if type(raised).__name__ != "InterpreterError" or raised.__cause__ is None:
            break
        raised = raised.__cause__
    return raised


def _message(raised: BaseException) -> str:
    try:
        text = str(raised)
    except Exception as broken:
        text = f"(its message raised {type(broken).__name__})"
    return _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT // 2]} … {text[-_MOST_TEXT // 2 :]}"


_COMPILE_ERRORS = {
    "CompilationError",
    "CompileTimeAssertionFailure",
    "UnsupportedLanguageConstruct",
    "OutOfResources",
    "PTXASError",
}


def _verdict(raised: BaseException, *, loading: bool, from_submission: bool) -> Any:
    if isinstance(raised, NotImplementedError) and from_submission and not loading:
        return "not_implemented"
    if loading and isinstance(raised, SyntaxError | ImportError):
        return "invalid_submission"
    message = _message(raised)
    if isinstance(raised, MemoryError) or "out of memory" in message or "can't allocate memory" in message:
        return "oom"
    if any(kind.__name__ in _COMPILE_ERRORS for kind in type(raised).__mro__):
        return "compile_error"
    return "crash"
