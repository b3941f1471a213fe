"""Replay traces on the true inputs, and answer the grader: replay, precompile, prepare and sample.

Takes traces, which are claims; gives outputs, findings and times. Never executes the submission's Python.
"""

from __future__ import annotations

import dataclasses
import linecache
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from numpy.random import default_rng
from torch import Tensor

from grader.calls.arguments import PlacedArguments
from grader.calls.filling import fill_uninitialised_memory
from grader.calls.outputs import copied_out, form_of
from grader.calls.raising import Raising
from grader.compile.announcing import Announcer, announce_compilation
from grader.exercise import tensors
from grader.files import write_atomically
from grader.interpreter.arithmetic.births import BIRTHS
from grader.interpreter.arithmetic.contraction import CONTRACTION
from grader.interpreter.arithmetic.hidden_nan import HIDDEN_NAN
from grader.interpreter.corrections import apply_corrections
from grader.interpreter.gather import LANE_ORDER
from grader.interpreter.language.branches import BRANCHES
from grader.interpreter.language.padding import PADDING
from grader.interpreter.language.static_conditions import STATIC_CONDITIONS
from grader.interpreter.memory import MemoryWatch
from grader.interpreter.once import patch_language_once
from grader.interpreter.programs.patience import PATIENCE
from grader.protocol import answers, observations, requests
from grader.protocol.answers import Answer, Form, Loaded, Precompiled, Raised, Returned
from grader.protocol.configurations import lightest_first
from grader.protocol.decode import decode
from grader.protocol.requests import Call, Start
from grader.protocol.trace import Choose, KernelText, Trace, Window, kept_storages
from grader.protocol.trace_decoding import decode_trace
from grader.replay.compiling import TraceCompiler
from grader.replay.cute_programs import Program, Programs
from grader.replay.kernels import Kernels
from grader.replay.language import keywords, offers
from grader.replay.memory import Computed, Memory, Unreplayable, overlap
from grader.replay.operators import operators
from grader.replay.order import WorkOrder, is_unordered
from grader.replay.run import Run, first_that_works
from grader.replay.text import Text
from grader.replay.timing import TraceTimer
from grader.replay.values import Elsewhere, refusal_in

_MOST_RESULTS = 64
_MOST_KERNELS = 16


@dataclasses.dataclass(frozen=True)
class _Home:
    """The memory of replays on one device: arguments, and the storages of all calls.

    results, given: storages of the latest results, and of the latest arguments.
    """

    device: torch.device
    arguments: PlacedArguments
    memory: Memory
    results: list[int] = dataclasses.field(default_factory=list)
    given: list[int] = dataclasses.field(default_factory=list)

    @classmethod
    def on(cls, device: torch.device, *, guarded: bool) -> _Home:
        """Return an empty home on a device."""
        return cls(device, PlacedArguments(device, guarded=guarded), Memory(device, guarded=guarded))

    def with_memory(self, memory: Memory) -> _Home:
        """Return this home with another memory, for one replay."""
        return dataclasses.replace(self, memory=memory, results=[], given=[])

    def forget(self) -> None:
        """Forget all storages."""
        self.memory.forget()
        self.results.clear()
        self.given.clear()

    def of_earlier_calls(self, numbers: Collection[int]) -> dict[int, Tensor]:
        """Return a copy of the bytes of each of these storages that was an earlier call's result or argument."""
        return {number: self.memory.bytes_of(number).clone() for number in {*self.results, *self.given} & {*numbers}}


def look_up_names() -> None:
    """Look up all names that a trace may use, of the language and of operators, once for all forks of this process."""
    offers()
    operators()


class Replayer:
    """A process that replays the recordings of one submission's process; both keep memory from call to call.

    guarded: tensors lie between guard bands, and unwritten memory is NaN. draws_on_device: draw inputs on their
    device, for large ones. around: makes the context that the steps of a call run in.
    """

    def __init__(
        self,
        start: Start,
        scratch: str,
        device: torch.device,
        announcer: Announcer,
        *,
        guarded: bool = True,
        draws_on_device: bool = False,
        around: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._start = start
        self._announcer = announcer
        self._guarded = guarded
        self._draws_on_device = draws_on_device
        self._around = around
        self._path = str(Path(scratch, start.submission_name))
        write_atomically(Path(self._path), start.submission)
        # The homes of kernels, and of functions that run on the CPU even beside a GPU.
        self._home = _Home.on(device, guarded=guarded)
        self._homes = {one.device.type: one for one in (_Home.on(torch.device("cpu"), guarded=guarded), self._home)}
        self._raising = Raising(self._path, keywords)
        self._timing = TraceTimer(device, self)
        self._watch: MemoryWatch | None = None
        # Races of launches with one another, in the current call.
        self._unordered: Sequence[observations.GuardFinding] = ()
        self._programs = Programs()
        self._device = device
        self._source = start.submission
        self._text: Text | None = None
        # The kernels of the latest traces, newest last, by their descriptions as text: 1 equals 1.0 and True.
        self._kernels: dict[str, Kernels] = {}
        # The kernels of the submission's own text, while a call uses another text.
        self._unedited: dict[str, Kernels] = {}
        # The configuration that worked last in this call, by the launch's line and the number of configurations.
        self._chosen: dict[tuple[int, int], int] = {}
        # The memory that the latest replay found, if any.
        self._before: Memory | None = None
        # The configurations that the current call may try, and the one that its first autotuner took.
        self._wanted = requests.Wanted()
        self._taken = -1
        # What the interpreter counts in the current call.
        self._counts: requests.Counts = "bytes"
        self._inputs = tensors.module_from_text("inputs.py", start.inputs)
        self._compiler: TraceCompiler | None = None
        if start.target:
            # This process only compiles: nothing is launched, and the tensors' devices do not matter.
            self._compiler = TraceCompiler(self._path, announcer, start.target, self._line_of)
        elif device.type == "cuda":
            announce_compilation(announcer)
        else:
            apply_corrections()
            self._watch = MemoryWatch()
            self._watch.install()
            offers()
            patch_language_once()
            self._watch.run_in_lockstep()
        fill_uninitialised_memory(on=guarded)

    def load(self) -> Loaded:
        """Return an empty Loaded: the submission's file is only read."""
        return Loaded("loaded", (), ())

    def answer(self, message: dict[str, Any], descriptors: list[int]) -> Answer:
        """Do the job that a message of the grader asks for, and return the answer."""
        try:
            match message.get("op"):
                case requests.Sample.op:
                    return self._answer_or_raised(lambda: self._timing.sample(decode(requests.Sample, message)))
                case requests.Show.op:
                    return self._answer_or_raised(
                        lambda: self._timing.show(decode(requests.Show, message), descriptors[0])
                    )
                case requests.Prepare.op:
                    return self._prepare(message)
                case requests.Compile.op:
                    trace = decode_trace(message.pop("trace"))
                    request = decode(requests.Compile, {**message, "trace": {}})
                    return self._answer_or_raised(lambda: self._compiled(request, trace))
                case requests.Precompile.op:
                    trace = decode_trace(message.pop("trace"))
                    place = decode(requests.Precompile, {**message, "trace": {}}).configuration
                    return self._answer_or_raised(
                        lambda: Precompiled("precompiled", self._timing.precompile(trace, place))
                    )
                case _:
                    return self._replay(message, descriptors[0])
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _compiled(self, request: requests.Compile, trace: Trace) -> answers.Compiled:
        if self._compiler is None:
            raise ValueError("only a replayer with a target compiles for others")
        return self._compiler.compile(request, trace, self.kernels)

    def _line_of(self, function: str) -> int:
        """Return the line of a function in the submission's text, by its name; 0 if it has none."""
        self._text = self._text or Text(self._source, self._path)
        return next((found.lineno for (name, _), (_, found) in self._text.functions.items() if name == function), 0)

    def _prepare(self, message: dict[str, Any]) -> Answer:
        traces = [decode_trace(one) for one in message["traces"]]
        request = decode(requests.Prepare, {**message, "traces": []})
        # The memory of earlier replays is not needed any more, and the timed work may need all of it.
        self._home = _Home.on(self._device, guarded=self._guarded)
        self._homes[self._device.type] = self._home
        recipe = request.call.recipe

        def build(seed: int) -> tuple[object, ...]:
            return tensors.build(self._inputs, recipe.part, recipe.case, seed, None, self._device)

        return self._answer_or_raised(lambda: self._timing.prepare(request, traces, build))

    def _replay(self, message: dict[str, Any], memory_fd: int) -> Answer:
        trace = decode_trace(message.pop("trace"))
        replay = decode(requests.ReplayCall, {**message, "trace": {}})
        self._home = regular = self._homes["cpu" if replay.call.on_cpu else self._device.type]
        self._wanted, self._taken = replay.wanted, -1
        # A call must not pass on to a later one what the later seed does not depend on.
        self._chosen.clear()
        self._unordered = ()
        if replay.memory == "isolated":
            self._home = regular.with_memory(Memory(regular.device, guarded=self._guarded))
        elif replay.memory == "before":
            blank = Memory(regular.device, guarded=self._guarded)
            before = self._before.copied(self._before.known()) if self._before else blank
            self._home = regular.with_memory(before)
        if replay.again and replay.call.carries:
            # The carried arguments now hold the results of the replay in the programs' own order, for later calls:
            # rewind a copy.
            self._home = dataclasses.replace(self._home, arguments=regular.arguments.rewound())
        try:
            with self._kernels_of(replay.text):
                return self._run_trace(replay, trace, memory_fd)
        finally:
            self._home = regular

    @contextmanager
    def _kernels_of(self, source: str) -> Iterator[None]:
        """Take kernels from another text in the block; "": from the submission's."""
        if not source:
            yield
            return
        regular, shown = (self._source, self._text, self._kernels), linecache.cache.get(self._path)
        self._source, self._text, self._kernels, self._unedited = source, None, {}, self._kernels
        try:
            yield
        finally:
            self._source, self._text, self._kernels = regular
            self._unedited = {}
            if shown is not None:
                linecache.cache[self._path] = shown

    def _answer_or_raised(self, do: Callable[[], Answer], line: Callable[[], int] | None = None) -> Answer:
        """Return the answer of `do`, or a description of its exception."""
        try:
            return do()
        except Exception as raised:
            return self._raised_message(raised, line() if line else self._timing.line)

    def _raised_message(self, raised: Exception, line: int) -> Raised:
        if isinstance(raised, Computed):
            return dataclasses.replace(self._raising.describe_refusal(str(raised), line), kind=answers.COMPUTED)
        if isinstance(raised, Unreplayable):
            return Raised("raised", "crash", "Unreplayable", str(raised)[:2000], ())
        if refused := refusal_in(raised):
            raised_message = self._raising.describe_refusal(refused.rule, refused.line, launched_at=line)
            if isinstance(refused, Elsewhere):
                return dataclasses.replace(raised_message, kind=answers.COMPUTED)
            return raised_message if refused.python else dataclasses.replace(raised_message, kind=answers.UNRECORDABLE)
        return self._raising.describe(raised, findings=self._findings(), launched_at=line)

    def _run_trace(self, replay: requests.ReplayCall, trace: Trace, memory_fd: int) -> Answer:
        call = replay.call
        if replay.memory == "afresh":
            self._home.forget()
        found = self._home.memory.known() & {one.storage for one in trace.windows} - {*trace.arguments.values()}
        if replay.memory == "kept":
            self._before = self._home.memory.copied(found) if found else None
        of_others = self._home.of_earlier_calls(found)
        order = WorkOrder(self._watch) if self._watch and replay.launches and is_unordered(trace.steps) else None
        run = Run(self, trace, launches="run" if replay.launches else "none", unwritten=replay.unwritten, order=order)

        def replay_steps() -> Answer:
            self._place(call, trace)
            PATIENCE.begin(replay.patience_s, self._elements(call))
            PADDING.begin(replay.filled, replay.filling)
            CONTRACTION.begin(replay.contracted)
            HIDDEN_NAN.begin()
            STATIC_CONDITIONS.begin()
            BRANCHES.begin(replay.branches)
            LANE_ORDER.begin(replay.lanes, call.recipe.seed)
            if self._watch:
                self._counts = replay.counts
                self._watch.count_instructions(replay.counts == "instructions")
                BIRTHS.switch(replay.births, replay.settled)
                chance = default_rng(call.recipe.seed) if replay.backwards else None
                self._watch.run_backwards(chance, replay.pauses, replay.interrupted)
                self._watch.begin()
            with self._around():
                run.steps(trace.steps)
                self._unordered = order.end() if order else ()
                if self._home.device.type == "cuda":
                    torch.cuda.synchronize()
            spoiled = {number for number, before in of_others.items() if not self._home.memory.holds(number, before)}
            return self._returned_message(call, trace, run, memory_fd, spoiled)

        return self._answer_or_raised(replay_steps, lambda: run.line)

    def _elements(self, call: Call) -> int:
        """Return the number of elements of a call's tensors, with outputs of four bytes an element."""
        given = sum(self._home.arguments.tensor(name).numel() for name in self._home.arguments.tensors)
        return given + sum(slot.nbytes for slot in call.slots) // 4

    def _place(self, call: Call, trace: Trace) -> None:
        recipe = call.recipe
        drawn_on = self._home.device if self._draws_on_device else "cpu"
        values = tensors.build(self._inputs, recipe.part, recipe.case, recipe.seed, recipe.patch_seed, drawn_on)
        self._home.arguments.place(call.arguments, values, call.storage, call.carries)
        self._home.memory.begin()
        if set(trace.arguments) != set(self._home.arguments.tensors):
            raise Unreplayable(f"a trace must name the tensor arguments, got {sorted(trace.arguments)}")
        # A workspace counts as memory of every call that uses it, even if an earlier call allocated it.
        self._home.memory.keep_in_use({one.storage for one in trace.windows} - {*trace.arguments.values()})
        for name, number in trace.arguments.items():
            self._home.memory.place_argument(
                number, self._home.arguments.buffer(name), self._home.arguments.tensor(name)
            )

    def _returned_message(
        self, call: Call, trace: Trace, run: Run, memory_fd: int, spoiled: Collection[int]
    ) -> Returned:
        given = frozenset(trace.arguments.values())
        outputs: list[tuple[Form, Tensor | None]] = []
        own: list[Window] = []
        for output in trace.outputs:
            tensor, form, alias = None, output.form, ""
            if output.window >= 0:
                window = trace.windows[output.window]
                tensor = self._home.memory.tensor(window)
                alias = self._alias(trace, window, own) if form.kind == "tensor" else ""
                # Only the recorder knows a tensor's device.
                form = dataclasses.replace(form_of(tensor), device=form.device)
                own.append(window)
            outputs.append((dataclasses.replace(form, alias=alias, copied=False), tensor))
        what = dict.fromkeys(self._home.given, "an argument") | dict.fromkeys(self._home.results, "a result")
        made = [window.storage for window in own if window.storage not in given]
        self._home.results[:] = [*self._home.results, *made][-_MOST_RESULTS:]
        self._home.given[:] = [*self._home.given, *given][-_MOST_RESULTS:]
        outputs += [(form_of(one), one) for one in map(self._home.arguments.tensor, call.mutates)]
        forms = copied_out(outputs, call.slots, memory_fd, self._home.device.type)
        changed, overrun = self._home.arguments.disturbed(call.mutates)
        overrun += self._home.memory.overrun()
        copied_bytes, copying_line = run.copied()
        return Returned(
            "returned",
            forms,
            changed,
            overrun,
            tuple(run.launched),
            self._findings(),
            self._home.memory.most_bytes,
            self._taken,
            undefined=PADDING.undefined,
            padded=PADDING.padded,
            unordered=self._watch.take_unordered() if self._watch else (),
            meets=self._watch is not None and self._watch.take_meets(),
            pauses=self._watch.take_pauses() if self._watch else (),
            clashes=self._watch.take_clashes() if self._watch else (),
            outside=self._home.memory.outside(),
            contracted=CONTRACTION.happened,
            hides_nan=HIDDEN_NAN.happened,
            undefined_whole=PADDING.undefined_whole,
            reads_bits=self._watch is not None and self._watch.reads_bits,
            spoiled=tuple(sorted({what[number] for number in spoiled})),
            copied_bytes=copied_bytes,
            copying_line=copying_line,
            enlarged_bytes=run.enlarged,
            conditions=STATIC_CONDITIONS.noted(),
            births=BIRTHS.found,
            branches=BRANCHES.noted(),
            reached_beyond=tuple(run.reached_beyond),
        )

    def _alias(self, trace: Trace, result: Window, own: Sequence[Window]) -> str:
        """Return whose memory a result shares; "" for nobody's. own: the results before it, of the same call."""
        for name, number in trace.arguments.items():
            if number == result.storage:
                return f"argument {name}"
        if result.storage in self._home.results:
            return "an earlier result"
        if result.storage in kept_storages(trace):
            return "memory that an earlier call kept"
        return "another result" if any(overlap(result, other) for other in own) else ""

    def _findings(self) -> tuple[observations.GuardFinding, ...]:
        return (*self._watch.take(), *self._unordered) if self._watch else ()

    # -- called by a run -----------------------------------------------------------------------------------------------

    def kernels(self, kernel_texts: tuple[KernelText, ...]) -> Kernels:
        """Return the kernels of a trace, reused from an earlier one if they are equal. Raises RefusedFunction."""
        self._text = self._text or Text(self._source, self._path)
        described = repr(kernel_texts)
        kernels = self._kernels.pop(described, None)
        kernels = kernels or Kernels(self._text, kernel_texts, self._unedited.get(described))
        self._kernels[described] = kernels
        for oldest in [*self._kernels][:-_MOST_KERNELS]:
            del self._kernels[oldest]
        return kernels

    @property
    def memory(self) -> Memory:
        """Return the storages of all calls."""
        return self._home.memory

    @property
    def device(self) -> torch.device:
        """Return the device of tensors."""
        return self._home.device

    def program(self, place: int, trace: Trace) -> Program:
        """Return a compiled program of a trace. Raises RefusedFunction."""
        cute_program = trace.programs[place]
        with self._announcer.during(cute_program.name[:80]):
            return self._programs.prepare(cute_program)

    def counted(self, launch: observations.LaunchInfo, *, footprint: bool) -> observations.LaunchInfo:
        """Return the latest launch with what the interpreter counts: its traffic, and what is asked for besides."""
        watch = self._watch
        if watch is None:
            return launch
        return dataclasses.replace(
            launch,
            traffic=watch.traffic,
            footprint=watch.footprint() if footprint else None,
            waste=watch.waste() if self._counts != "bytes" else None,
        )

    def launching(self, number: int) -> None:
        """Begin a launch."""
        STATIC_CONDITIONS.launching(number)

    def choose(self, step: Choose, run: Run) -> None:
        """Execute the first configuration that works, beginning with the one that worked last in this call.

        With compiled kernels, the lightest comes first. A configuration that is rehearsed runs twice.
        """
        count = len(step.alternatives)
        places = [place % count for place in self._wanted.places]
        if places and self._wanted.rehearsed:
            taken = places[0]
            run.rehearse(step, taken)
            run.steps(step.alternatives[taken])
        elif places:
            taken = first_that_works(step, run, places)
        else:
            key = step.line, count
            order = lightest_first(step) if self._home.device.type == "cuda" else [*range(count)]
            first = self._chosen.get(key, order[0])
            tried = [first, *(place for place in order if place != first)]
            taken = self._chosen[key] = first_that_works(step, run, tried)
        self._taken = taken if self._taken < 0 else self._taken
