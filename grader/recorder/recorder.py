"""Record one call after another: allocations, copies, launches, and operators that compute besides.

Gives Recorded messages; never runs a kernel.
"""

from __future__ import annotations

import base64
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from grader.calls import streams
from grader.calls.filling import run_with_filling
from grader.calls.launches import has_allocator
from grader.calls.modes import tensors_in, unobserved
from grader.calls.storage import has_storage
from grader.protocol.answers import Form
from grader.protocol.operators import RECORDED, SHAPING
from grader.protocol.trace import (
    ADDRESS,
    MOST_CONSTANT_BYTES,
    MOST_PROGRAM_BYTES,
    MOST_PROGRAMS,
    MOST_STEPS,
    MOST_WINDOWS,
    Recorded,
    TraceNote,
    is_out_of_order,
)
from grader.recorder import cute, launching
from grader.recorder.encoding import ValueEncoder
from grader.recorder.host_memory import HostMemory
from grader.recorder.kernels import KernelTexts
from grader.recorder.modes import Functions, Operators
from grader.recorder.see_through import see_through
from grader.recorder.storages import ELSEWHERE, Storages, Unrecordable, content_of, window_of
from grader.recorder.stream_order import StreamOrder

_MOST_NOTES = 64
# The steps that free memory, before and after those of a call.
_FREEING = 2
_LAUNCHING = ("launch", "cute", "choose")
_MOST_ORIGINS = 16
_MOST_CHARACTERS = 2 << 20


class RecordedCall:
    """The steps of one call so far."""

    def __init__(self, storages: Storages, path: str) -> None:
        self._storages = storages
        self._path = path
        self.arguments: dict[str, int] = {}
        self.windows: list[list[object]] = []
        self._places: dict[str, int] = {}
        self._programs: dict[str, int] = {}
        self.programs: list[dict[str, Any]] = []
        self.steps: list[list[Any]] = [*_free_steps(storages)]
        # The steps before `steps`, while those belong to one of several alternatives.
        self._steps_of_all = self.steps
        self.outside_work: dict[tuple[str, int, tuple[str, ...]], None] = {}
        # The arguments behind each storage that an operator made.
        self._origins: dict[int | None, tuple[str, ...]] = {}
        self.unrecordable: dict[tuple[str, int], None] = {}
        self._count = 0
        self.texts = KernelTexts(path, lambda value: self.encoder.encode(value, tensors=False))
        self.encoder = ValueEncoder(self.window, self.texts.place_of)
        self.order = StreamOrder()

    def window(self, tensor: Tensor) -> int:
        """Return the place of a tensor's window in the trace; unknown memory is recorded with its bytes."""
        number = self._storages.number_of(tensor)
        if number is None:
            size, data = content_of(tensor, MOST_CONSTANT_BYTES, _MOST_CHARACTERS)
            number = self._storages.add(tensor)
            # Later alternatives may use it too.
            self.record_step(["constant", number, size, data], self._steps_of_all)
        row = window_of(tensor, number)
        if (place := self._places.get(str(row))) is None:
            place = self._places[str(row)] = self._new_window(row)
        return place

    def _new_window(self, row: list[object]) -> int:
        if len(self.windows) == MOST_WINDOWS:
            self.note_unrecordable(f"more than {MOST_WINDOWS} views")
        else:
            self.windows.append(row)
        return len(self.windows) - 1

    def argument(self, value: object) -> Any:
        """Return an argument of a launch for the trace."""
        return ["unknown", ADDRESS] if self._storages.has_address_in(value) else self.encoder.encode(value)

    def program(self, name: str, text: str) -> int:
        """Return the place of a program of CuTe's in the trace. Raises Unrecordable where it is too large."""
        if text not in self._programs:
            raw = text.encode()
            if len(raw) > MOST_PROGRAM_BYTES or len(self.programs) >= MOST_PROGRAMS:
                raise Unrecordable(f"{name}, a program of {len(raw)} bytes, or more than {MOST_PROGRAMS} of them")
            self._programs[text] = len(self.programs)
            data = base64.b64encode(zlib.compress(raw)).decode()
            self.programs.append({"name": name, "nbytes": len(raw), "data": data})
        return self._programs[text]

    def record_step(self, step: list[Any], steps: list[list[Any]] | None = None) -> None:
        """Record one step, after others (None: after those that are recorded now)."""
        self._count += 1
        left = MOST_STEPS - _FREEING - self._count
        if left >= 0:
            (self.steps if steps is None else steps).append(step)
        elif left == -1:
            self.note_unrecordable(f"more than {MOST_STEPS} steps")

    def record_work(self, step: list[Any]) -> None:
        """Record one step of GPU work; before it, the stream that it runs on, if that has changed."""
        for change in self.order.steps_before_work():
            self.record_step(change)
        self.record_step(step)

    def note_outside_work(self, name: str, tensors: Sequence[Tensor] = ()) -> None:
        """Record an operator that computed besides the kernels, with its arguments and its line."""
        known = self.origins(tensors)
        # Tensor.cpu copies nothing if the tensor is on the CPU.
        if len(self.outside_work) < _MOST_NOTES and (known or name != "Tensor.cpu"):
            self.outside_work.setdefault((name[:80], self.line(), known))

    def origins(self, tensors: Sequence[Tensor]) -> tuple[str, ...]:
        """Return the names of the arguments that the tensors are, or were made from."""
        numbers = {self._storages.number_of(one) for one in tensors if type(one) is Tensor}
        given = [name for name, number in self.arguments.items() if number in numbers]
        made = [name for number in numbers for name in self._origins.get(number, ())]
        return tuple(sorted({*given, *made}))[:_MOST_ORIGINS]

    def note_unrecordable(self, what: str) -> None:
        """Record that something cannot be recorded."""
        if len(self.unrecordable) < _MOST_NOTES:
            self.unrecordable.setdefault((what[:200], self.line()))

    def line(self) -> int:
        """Return the submission's line that is running, or 0."""
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == self._path:
                return frame.f_lineno
            frame = frame.f_back  # type: ignore[assignment]
        return 0

    def record_freed(self) -> None:
        """Record the storages that nothing holds any more."""
        for step in _free_steps(self._storages):
            self.record_step(step)

    def to_message(self, outputs: Sequence[tuple[Form, object]], *, with_values: bool = True) -> Recorded:
        """Return the whole recording.

        outputs: the returned values, in order. with_values: record the bytes of one in unknown memory; otherwise it has
        no window.
        """
        rows = []
        with unobserved():
            for form, output in outputs:
                try:
                    window = -1
                    if isinstance(output, Tensor) and form.kind == "tensor":
                        known = with_values or self._storages.number_of(output) is not None
                        window = self.window(output) if known else -1
                except Unrecordable as unrecordable:
                    self.note_unrecordable(str(unrecordable))
                    window = -1
                rows.append([window, asdict(form)])
        trace: dict[str, Any] = {
            "arguments": self.arguments,
            "windows": self.windows,
            "kernels": self.texts.rows,
            "steps": self.steps,
            "outputs": rows,
        }
        if self.programs:
            trace["programs"] = self.programs
        outside_work = tuple(TraceNote(*one) for one in self.outside_work)
        missing = tuple(TraceNote(*one) for one in self.unrecordable)
        return Recorded("recorded", trace, outside_work, missing)

    # -- operators -----------------------------------------------------------------------------------------------------

    def run_operator(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator that does no part of the work, and record it."""
        name = func._schema.name.partition("::")[2]
        known = [*filter(has_storage, tensors_in((args, tuple(kwargs.values()))))]
        sizes = {one.untyped_storage()._cdata: one.untyped_storage().nbytes() for one in known}
        encoded: tuple[list[Any], dict[str, Any]] = [], {}
        if name in RECORDED:
            encoded = [self.encoder.encode(one) for one in args], {n: self.encoder.encode(v) for n, v in kwargs.items()}
        result = run_with_filling(func, args, kwargs)
        if not all(map(has_storage, tensors_in(result))):
            self.note_unrecordable(ELSEWHERE)
            return result
        if name in RECORDED:
            self._record_operator(name, func, encoded, tensors_in(result))
            self._record_origins(known, tensors_in(result))
        for tensor in tensors_in(result) if name in SHAPING else ():
            before = sizes.get(tensor.untyped_storage()._cdata)
            if before is not None and tensor.untyped_storage().nbytes() > before:
                self._record_growth(tensor, before)
        return result

    def _record_operator(
        self, name: str, func: Any, encoded: tuple[list[Any], dict[str, Any]], results: Sequence[Tensor]
    ) -> None:
        self.record_freed()
        for tensor in results:
            if self._storages.number_of(tensor) is None:
                self._storages.add(tensor)
        overload = func._overloadname
        if "out" in overload:
            self.note_unrecordable(f"torch.{name}(…, out=…): write it without out=")
        self.record_work(
            ["operator", f"{name}.{overload}", *encoded, [self.window(one) for one in results], self.line()]
        )

    def _record_origins(self, known: Sequence[Tensor], results: Sequence[Tensor]) -> None:
        """Record the arguments behind an operator's results."""
        if origins := self.origins(known):
            for one in results:
                number = self._storages.number_of(one)
                if number not in self.arguments.values():
                    self._origins[number] = origins

    def _record_growth(self, tensor: Tensor, before: int) -> None:
        """Record that a storage grew: as new memory, into which the old bytes are copied."""
        old = self._storages.number_of(tensor)
        size = tensor.untyped_storage().nbytes()
        number = self._storages.add(tensor)
        whole = self._window_of_bytes(number, size)
        kind = {"dtype": ["dtype", "torch", "uint8"]}
        self.record_step(["operator", "empty.memory_format", [["list", [size]]], kind, [whole], self.line()])
        if old is not None and before:
            into, source = self._window_of_bytes(number, before), self._window_of_bytes(old, before)
            self.record_step(
                ["operator", "copy_.default", [["tensor", into], ["tensor", source]], {}, [into], self.line()]
            )
        if old is not None:
            self.record_step(["free", [old]])

    def _window_of_bytes(self, storage: int, size: int) -> int:
        return self._new_window([storage, "uint8", 0, [size], [1]])


class Recorder:
    """Records the calls of one process. Call `install` once, before the submission is loaded."""

    def __init__(self, path: str, device: torch.device) -> None:
        self._path = path
        self._device = device
        self._storages = Storages()
        self._host_memory = HostMemory(lambda: self.call.line() if self.call else 0, on_gpu=device.type == "cuda")
        self.call: RecordedCall | None = None

    @property
    def is_on(self) -> bool:
        """Return whether a call is being recorded."""
        return self.call is not None

    def install(self) -> None:
        """Stand in front of launches, and watch operators in all threads that the submission starts."""
        launching.install(self, on_gpu=self._device.type == "cuda")
        streams.STREAMS.listener = self.hear_stream
        # Code of torch.compile calls it; it allocates below the modes.
        vars(torch._C._dynamo.guards)["_empty_strided_cuda"] = _empty_strided
        run = threading.Thread.run

        def run_watched(thread: threading.Thread) -> None:
            with self._modes():
                run(thread)

        see_through(self._modes)
        threading.Thread.run = run_watched  # type: ignore[method-assign,assignment]

    @contextmanager
    def _modes(self) -> Iterator[None]:
        with Functions(self), Operators(self):
            yield

    def install_cute(self) -> None:
        """Stand in front of the CuTe DSL."""
        cute.install(self)

    def forget(self) -> None:
        """Forget all storages: memory from earlier calls will be recorded with its bytes."""
        self._storages = Storages()

    def record(self, function: Callable[[], object], arguments: Mapping[str, Tensor]) -> tuple[RecordedCall, object]:
        """Call a function, and return the recording and the result. arguments: its tensor arguments, by name."""
        call = RecordedCall(self._storages, self._path)
        for name, tensor in arguments.items():
            number = self._storages.number_of(tensor)
            call.arguments[name] = self._storages.add(tensor) if number is None else number
        with self._host_memory, self._modes():
            self.call = call
            try:
                result = function()
            finally:
                self.call = None
        return call, result

    # -- called by the modes -------------------------------------------------------------------------------------------

    def note_outside_work(self, name: str, tensors: Sequence[Tensor] = ()) -> None:
        """Record an operator that computed besides the kernels."""
        assert self.call is not None
        self.call.note_outside_work(name, tensors)

    def run_operator(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """Run an operator that does no part of the work, and record it."""
        assert self.call is not None
        return self.call.run_operator(func, args, kwargs)

    # -- called as launching.Log and cute.CuteLog ----------------------------------------------------------------------

    def launch(
        self, kernel: Any, grid: tuple[int, ...], args: tuple[Any, ...], kwargs: dict[str, Any], options: dict[str, Any]
    ) -> None:
        """Record one launch. Raises ValueError for a tensor outside a GPU's reach, as Triton does on a GPU."""
        call = self.call
        assert call is not None
        with unobserved():
            self._refuse_host_memory(kernel, args, kwargs)
            try:
                place = call.texts.place_of(kernel)
            except Unrecordable as unrecordable:
                call.note_unrecordable(str(unrecordable))
                return
            rows = [call.argument(one) for one in args], {name: call.argument(one) for name, one in kwargs.items()}
            chosen = {name: call.encoder.encode(one, tensors=False) for name, one in options.items()}
            call.record_work(["launch", place, list(grid), *rows, chosen, call.line(), has_allocator()])

    def _refuse_host_memory(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for name, value in [*zip(kernel.arg_names, args, strict=False), *kwargs.items()]:
            for tensor in tensors_in(getattr(value, "base", value) if not isinstance(value, Tensor) else value):
                if maker := self._host_memory.maker_of(tensor):
                    function, line = maker
                    raise ValueError(
                        f"{name} lies in the host's memory, where no kernel on a GPU reaches it: {function} in line "
                        f"{line} names no device"
                    )

    def program(self, program: cute.TracedProgram, arguments: Sequence[cute.Argument]) -> None:
        """Record one call of a function that CuTe's DSL traced. Raises Unrecordable."""
        call = self.call
        assert call is not None
        with unobserved():
            place = call.program(program.name, program.text)
            stream = ["enum", "stream", ""]
            rows = [stream if isinstance(one, cute.Stream) else call.encoder.encode(one) for one in arguments]
            call.record_work(["cute", place, rows, call.line()])

    def choose(
        self,
        attempts: list[Callable[[], Any]],
        renewal: tuple[list[Tensor], list[Tensor]] | None,
        kept: list[Callable[[], Any]],
    ) -> Any:
        """Record every attempt as an alternative, with the tensors to renew, and return the result of the first."""
        call = self.call
        assert call is not None
        for change in call.order.steps_before_work():
            call.record_step(change)
        before, alternatives, results = call.steps, [], []
        try:
            for attempt in attempts:
                call.steps = []
                results.append(attempt())
                alternatives.append(call.steps)
            for attempt in kept:
                call.steps = []
                with suppress(Exception):
                    attempt()
                    alternatives.append(call.steps)
        finally:
            call.steps = before
        kinds = ([step[0] for step in steps if step[0] not in ("free", "stream")] for steps in alternatives)
        if len(alternatives) > 1 and any(is_out_of_order([kind in _LAUNCHING for kind in one]) for one in kinds):
            call.note_unrecordable("a hook of an autotuner that works after the launch")
        if len(alternatives) == 1:
            call.steps += alternatives[0]
        else:
            with unobserved():
                renewed = [[*map(call.window, tensors)] for tensors in renewal or ()]
            call.record_step(["choose", alternatives, call.line(), len(alternatives) - len(attempts), *renewed])
        return results[0]

    def hear_stream(self, action: streams.Action, stream: int, event: int) -> None:
        """Record that a simulated stream gets an event or waits for one."""
        if self.call is not None and (step := self.call.order.step_of(action, stream, event)):
            self.call.record_step(step)

    def note_unrecordable(self, what: str) -> None:
        """Record that something happened which the trace cannot express."""
        if self.call is not None:
            self.call.note_unrecordable(what)


def _empty_strided(shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Allocate a tensor on the GPU."""
    return torch.empty_strided(shape, strides, dtype=dtype, device="cuda")


def _free_steps(storages: Storages) -> list[list[Any]]:
    dead = storages.forget_dead()
    return [["free", sorted(dead)]] if dead else []
