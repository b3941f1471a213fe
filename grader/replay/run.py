"""Run one trace: its allocations, copies and launches, one after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from itertools import chain
from math import prod
from typing import Any, Literal, Protocol

import torch
import triton
from torch import Tensor
from triton.runtime.errors import OutOfResources

from grader.calls import launches
from grader.calls.modes import tensors_in
from grader.calls.tuning import is_passed_over
from grader.exercise.tensors import dtype_name, is_whole
from grader.interpreter.beyond import NeedsGpu
from grader.interpreter.language.padding import SMALL_AND_ODD
from grader.protocol import observations, requests
from grader.protocol.footprint import MOST_LAUNCHES
from grader.protocol.operators import ALLOCATING, EMPTY, NUMBERING, OVERWRITING
from grader.protocol.trace import (
    ADDRESS,
    Choose,
    Constant,
    CuteCall,
    EnumValue,
    Free,
    KernelText,
    Launch,
    Operator,
    Step,
    StreamStep,
    TensorValue,
    Trace,
    UnknownValue,
    Value,
    Window,
    launch_numbers,
    shown_in,
)
from grader.replay.addresses import followed
from grader.replay.arguments import ArgumentBuilder as Values
from grader.replay.cute_bounds import reached_beyond
from grader.replay.cute_programs import Program
from grader.replay.kernels import Kernels
from grader.replay.launching import lend_workspaces, multiplying_float32
from grader.replay.memory import Computed, Memory, Unreplayable
from grader.replay.operators import operators
from grader.replay.order import WorkOrder
from grader.replay.values import Elsewhere, RefusedFunction

# The most warps in a block of threads, and programs along each axis of a grid, on every GPU.
_MOST_WARPS = 32
_LONGEST_AXES = (2**31 - 1, 2**16 - 1, 2**16 - 1)
# No GPU begins so many programs within the time of a call.
_MOST_PROGRAMS = 2**36


class Library(Protocol):
    """A source of the functions that a trace launches."""

    def kernels(self, kernel_texts: tuple[KernelText, ...]) -> Kernels:
        """Return the kernels of a trace. Raises RefusedFunction."""

    def program(self, place: int, trace: Trace) -> Program:
        """Return a compiled program of a trace. Raises RefusedFunction."""


class RunContext(Library, Protocol):
    """The context that a trace runs in."""

    @property
    def device(self) -> torch.device:
        """Return the device of tensors."""

    @property
    def memory(self) -> Memory:
        """Return the storages."""

    def counted(self, launch: observations.LaunchInfo, *, footprint: bool) -> observations.LaunchInfo:
        """Return the latest launch with its counts, if anything is counted.

        footprint: with its footprint.
        """

    def launching(self, number: int) -> None:
        """Begin a launch. number: its place among those of the trace."""

    def choose(self, step: Choose, run: Run) -> None:
        """Execute one of the alternatives."""


class Uncounted:
    """The base of a context in which nothing is counted."""

    def counted(self, launch: observations.LaunchInfo, *, footprint: bool) -> observations.LaunchInfo:  # noqa: ARG002
        """Return the launch as it is."""
        return launch

    def launching(self, number: int) -> None:
        """Begin a launch."""


def first_that_works(step: Choose, run: Run, places: Sequence[int] = ()) -> int:
    """Execute the first alternative that works, among those at `places` or all; return its place.

    Skips those that an autotuner would skip. Raises the exception of the last one. The work of a skipped one before it
    failed stays counted: later ones may use it.
    """
    *others, last = places or range(len(step.alternatives))
    for place in others:
        before = len(run.launched)
        try:
            run.steps(step.alternatives[place])
        except Exception as refused:
            if not is_passed_over(refused):
                raise
            if run.launched[before:] and not _has_stored(run.launched[-1]):
                run.launched.pop()
        else:
            return place
    run.steps(step.alternatives[last])
    return last


def _has_stored(refused: observations.LaunchInfo) -> bool:
    """Return whether a launch had stored something before a static assertion stopped it."""
    return refused.traffic is not None and refused.traffic.stored_bytes > 0


class Run:
    """The run of one trace.

    launches: run, compile, or leave out launches. notes: note launches in `launched`, and follow tensors (of whole
    numbers, and those that an operator computes). unwritten: what empty allocations hold. line: the submission's line
    of the current step. order: receives what each step touches. reached_beyond: the tensors that programs of CuTe's
    read or write beyond the end of, where that is seen.
    """

    def __init__(
        self,
        context: RunContext,
        trace: Trace,
        *,
        launches: Literal["run", "compile", "none"] = "run",
        notes: bool = True,
        unwritten: requests.Unwritten = "nan",
        order: WorkOrder | None = None,
    ) -> None:
        self._context = context
        self._trace = trace
        self._launches = launches
        self._notes = notes
        self._unwritten = unwritten
        self._order = order
        self._values = Values(self._tensor, self._kernel, context.device)
        self.line = 0
        self.launched: list[observations.LaunchInfo] = []
        # In the order in which they were seen.
        self.reached_beyond: dict[str, None] = {}
        # The windows that the current step got.
        self._met: list[int] = []
        # Bytes that torch reads and writes in each line that copies or casts.
        self._copied: Counter[int] = Counter()
        # Bytes by which these copies are larger than what they copy.
        self._enlarged = 0

    @cached_property
    def _numbers(self) -> dict[int, int]:
        """Return the place of each launch of the trace, by the id of its step."""
        return launch_numbers(self._trace.steps)

    def copied(self) -> tuple[int, int]:
        """Return the bytes that torch reads and writes to copy and cast, and the line with the most; 0 without any."""
        return self._copied.total(), max(self._copied, key=self._copied.__getitem__, default=0)

    @property
    def enlarged(self) -> int:
        """Return the bytes by which copies are larger than what they copy: repeated, or cast to a wider type."""
        return self._enlarged

    def steps(self, steps: Sequence[Step]) -> None:
        """Execute these steps."""
        for step in steps:
            self.step(step)

    def rehearse(self, step: Choose, place: int) -> None:
        """Execute an alternative as an autotuner tries it: on the call's tensors, with the same renewal.

        The launch that counts follows later. Does nothing if hooks of the submission renew the tensors.
        """
        if step.renewal is None:
            return
        known, launched = self._context.memory.known(), len(self.launched)
        cleared = step.renewal.cleared
        restored = [(window, self._tensor(window).clone()) for window in step.renewal.restored]
        for window in cleared:
            self._tensor(window).zero_()
        self.steps(step.alternatives[place])
        # Looked up again: a forged trace may have freed them.
        for window, before in restored:
            self._tensor(window).copy_(before)
        for window in cleared:
            self._tensor(window).zero_()
        self._context.memory.drop_but(known)
        del self.launched[launched:]

    def step(self, step: Step) -> None:
        """Execute one step."""
        match step:
            case Operator():
                self._run_operator(step)
                self._tell_order(step)
            case Constant():
                self._context.memory.place_constant(step)
            case Launch():
                self._run_launch(step)
            case CuteCall():
                self._run_cute(step)
            case Choose():
                self._context.choose(step, self)
            case Free(storages):
                self._context.memory.free(storages)
            case StreamStep():
                if self._order:
                    self._order.follow(step)

    def _run_operator(self, step: Operator) -> None:
        operator = operators().get(step.name)
        if operator is None:
            raise Unreplayable(f"an operator must be one that does no part of the work, got {step.name}")
        self.line = step.line
        self._met.clear()
        results = tensors_in(operator(step, self._values))
        memory = self._context.memory
        whole = self._notes and all(memory.is_whole(self._trace.windows[index]) for index in self._met)
        name = step.name.partition(".")[0]
        if self._notes and name in NUMBERING and not whole:
            raise Computed(f"aten.{name}")
        sources = self._sources(name)
        if self._notes and not whole:
            self._refuse_arithmetic(step, sources)
        if sources:
            self._count_copy(name, step, sources)
        self.line = 0
        for place, result in zip(step.results, results, strict=True):
            window = self._trace.windows[place]
            made = (dtype_name(result.dtype), tuple(result.shape), tuple(result.stride()))
            if made != (window.dtype, window.shape, window.strides):
                raise Unreplayable(f"{step.name} must make {window}, got {made}")
            if self._unwritten != "nan" and name in EMPTY:
                _fill(result, self._unwritten)
            if not memory.knows(window.storage):
                memory.adopt(window.storage, result)
            elif result.numel() and result.data_ptr() != memory.tensor(window).data_ptr():
                # The submission's process has another operator of that name, or the trace is forged: nobody knows what
                # this one wrote to, so numbers of any storage may no longer be computed with or cast.
                memory.distrust()
                continue
            if self._notes and sources:
                memory.note_write(window, sources, whole=whole)
            if whole:
                memory.accept(window.storage)
            else:
                memory.taint(window.storage)

    def _tell_order(self, step: Operator) -> None:
        """Report what the latest operator has touched: its results lie in memory now."""
        if self._order:
            memory, name = self._context.memory, step.name.partition(".")[0]
            known = [one for one in self._sources(name) if memory.knows(one.storage)]
            results = [self._trace.windows[place] for place in step.results]
            self._order.note_operator(step, [*map(memory.tensor, known)], [*map(memory.tensor, results)])

    def _count_copy(self, name: str, step: Operator, sources: Sequence[Window]) -> None:
        written = [self._trace.windows[place] for place in step.results]
        self._copied[step.line] += sum(map(_nbytes, (*sources, *written)))
        # What is added around the numbers is no copy of them.
        if name != "constant_pad_nd":
            self._enlarged += max(0, sum(map(_nbytes, written)) - sum(map(_different_nbytes, {*sources})))

    def _sources(self, name: str) -> list[Window]:
        """Return the windows whose numbers the current operator reads."""
        read = [] if name in ALLOCATING else self._met[1:] if name in OVERWRITING else self._met
        return [self._trace.windows[index] for index in read]

    def _refuse_arithmetic(self, step: Operator, sources: Sequence[Window]) -> None:
        """Raise Computed for a copy or a cast that computes.

        The cast of one number is a rounding. The cast of bytes of several numbers combines them: the bytes that are its
        exponent choose among those of its mantissa. So does a cast to a whole number. A copy of a part of a number
        extracts the choice.
        """
        memory, name = self._context.memory, f"aten.{step.name.partition('.')[0]}"
        if any(map(memory.cuts_numbers, sources)):
            raise Computed(f"{name} of parts of numbers")
        results = {self._trace.windows[place].dtype for place in step.results}
        if len({one.dtype for one in sources} | results) > 1 and not all(map(memory.reads_as_written, sources)):
            raise Computed(f"{name} of bits of another type")
        fractions = any(not is_whole(getattr(torch, one.dtype)) for one in sources if not memory.is_whole(one))
        if fractions and any(is_whole(getattr(torch, dtype)) for dtype in results):
            raise Computed(f"{name} of fractions to whole numbers")

    def _run_launch(self, step: Launch) -> None:
        if self._launches == "none":
            return
        self.line = step.line
        self._met.clear()
        kernel_text = self._trace.kernels[step.kernel]
        if kernel_text.home:
            raise Elsewhere(step.line, f"the kernel {kernel_text.words}: write it in your file")
        kernel = self._kernel(step.kernel)
        args, kwargs, options = self._launch_arguments(step, kernel)
        if self._notes:
            constants = launches.constants(kernel, launches.bound(kernel, args, kwargs))
            told = observations.LaunchInfo(launches.name_of(kernel), step.grid, constants)
            self._note_launch(told, (*step.args, *step.kwargs.values()))
            self._context.launching(self._numbers[id(step)])
        warps = options.get("num_warps")
        if isinstance(warps, int) and warps > _MOST_WARPS:
            # No GPU has so many threads in a block; the interpreter has no threads.
            raise OutOfResources(warps * 32, _MOST_WARPS * 32, "threads")
        _refuse_large(step.grid)
        lend_workspaces(self._context.device if step.lends else None)
        precision = options.pop(launches.FP32_DEFAULT, None)
        if precision is not None and not isinstance(precision, str):
            raise Unreplayable(f"a precision of float32 products must be a text, got {type(precision).__name__}")
        try:
            # Launches are timed one after the other.
            with multiplying_float32(precision) if precision else nullcontext():
                compiled = kernel.run(*args, grid=step.grid, warmup=self._launches == "compile", **kwargs, **options)
            if self._launches == "compile" and compiled is not None:
                # Loading the kernel shows whether it exceeds the device.
                _ = compiled.run
        finally:
            if self._notes:
                is_told = len(self.launched) <= MOST_LAUNCHES
                self.launched[-1] = self._context.counted(self.launched[-1], footprint=is_told)
        if self._order:
            self._order.note_launch(step, launches.name_of(kernel), launches.bound(kernel, args, kwargs))
        self.line = 0

    def _run_cute(self, step: CuteCall) -> None:
        if self._launches == "none":
            return
        self.line = step.line
        self._met.clear()
        program = self._context.program(step.program, self._trace)
        if self._launches == "run":
            given = [self._cute_argument(one) for one in step.args]
            bound = program.bind(given)
            if self._notes:
                numbers = [one for one in given if isinstance(one, int | float)]
                digest = sha256(f"{program.digest}{numbers}".encode()).hexdigest()
                told = observations.LaunchInfo(program.name, (), dict(program.operations), digest=digest)
                self._note_launch(told, step.args)
                if self._context.device.type == "cpu":
                    self._note_ends(step.args, reached_beyond(program, given))
            bound.run()
        self.line = 0

    def _note_ends(self, values: Sequence[Value], reached: Iterable[int]) -> None:
        """Note the arguments of the call among the tensors that a program reaches beyond the end of."""
        names = {storage: name for name, storage in self._trace.arguments.items()}
        for place in reached:
            value = values[place]
            name = names.get(self._trace.windows[value.index].storage, "") if isinstance(value, TensorValue) else ""
            self.reached_beyond[name or "memory of its own"] = None

    def _cute_argument(self, value: Value) -> object:
        """Return an argument of a program; None stands for the stream."""
        match value:
            case TensorValue(index):
                return self._tensor(index)
            case EnumValue("stream"):
                return None
            case bool() | int() | float():
                return value
        raise Unreplayable(f"a program takes tensors, numbers and streams, got {type(value).__name__}")

    def _launch_arguments(self, step: Launch, kernel: Any) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
        """Return the arguments of a launch: by place, by name, and its options."""
        value = self._values.of_launch
        names = list(kernel.arg_names)
        open_names = set(names) - launches.constant_names(kernel)
        named = [*zip(names, step.args, strict=False), *step.kwargs.items()]
        if numbers := [name for name, one in named if one == UnknownValue(ADDRESS)]:
            if found := followed(self._context.kernels(self._trace.kernels).lines(step.kernel), numbers):
                rule = f"`{found[0]}` gets {ADDRESS}, and tl.{found[1]} follows a tensor's pointer"
                raise RefusedFunction(step.line, f"{rule}: give the kernel the tensor", python=True)
            rule = f"{ADDRESS}: give the kernel the tensor"
            raise NeedsGpu(rule) if triton.knobs.runtime.interpret else RefusedFunction(step.line, rule, python=False)
        try:
            given = {name: value(one) for name, one in named if name in open_names}
        except RefusedFunction as refused:
            # The compiler has no type for the argument.
            raise RefusedFunction(refused.line, refused.rule, python=True) from None
        given |= {name: value(one) for name, one in named if name not in open_names}
        args, kwargs = [given[name] for name in names[: len(step.args)]], {name: given[name] for name in step.kwargs}
        if unknown := step.options.keys() - launches.OPTIONS - {launches.FP32_DEFAULT}:
            rule = (
                f"a launch's options must be of {', '.join(sorted(launches.OPTIONS))}, got {min(unknown)}: leave it out"
            )
            raise RefusedFunction(step.line, rule, python=False)
        return args, kwargs, {name: self._values.plain(one) for name, one in step.options.items()}

    def _note_launch(self, launch: observations.LaunchInfo, values: Iterable[Value]) -> None:
        self.launched.append(launch)
        for index, dtype in chain.from_iterable(map(shown_in, values)):
            if index not in self._met:
                # A forged launch names a tensor that its kernel does not get.
                continue
            # The kernel may store there. An argument must stay as it is, and is compared before torch computes with it.
            window = self._trace.windows[index]
            if window.storage in self._trace.arguments.values():
                self._context.memory.lend(window.storage)
            else:
                self._context.memory.taint(window.storage)
                self._context.memory.note_kernel(window, dtype or window.dtype)

    def _kernel(self, index: int) -> Any:
        return self._context.kernels(self._trace.kernels).kernel(index)

    def _tensor(self, index: int) -> Tensor:
        self._met.append(index)
        return self._context.memory.tensor(self._trace.windows[index])


def _different_nbytes(window: Window) -> int:
    """Return the bytes of a window's elements; elements along an axis of stride 0 are one."""
    axes = zip(window.shape, window.strides, strict=True)
    return _nbytes(replace(window, shape=tuple(size if stride else min(size, 1) for size, stride in axes)))


def _nbytes(window: Window) -> int:
    dtype: torch.dtype = getattr(torch, window.dtype)
    return prod(window.shape) * dtype.itemsize


def _fill(fresh: Tensor, content: requests.Filling) -> None:
    """Fill a new tensor. Integers: the smallest or largest for an infinity, 0 for 0, else a small one; bool: False."""
    if fresh.is_floating_point():
        fresh.fill_(float(content))
    elif content == "0" or fresh.dtype == torch.bool:
        fresh.zero_()
    else:
        limits = torch.iinfo(fresh.dtype)
        fresh.fill_({"-inf": limits.min, "inf": limits.max}.get(content, SMALL_AND_ODD))


def _refuse_large(grid: tuple[int, ...]) -> None:
    """Raise ValueError for a grid that no GPU launches or finishes; the interpreter would only give it up."""
    for axis, (size, longest) in enumerate(zip(grid, _LONGEST_AXES, strict=False)):
        if size > longest:
            raise ValueError(f"axis {axis} of a grid must have at most {longest:,} programs, got {size:,}")
    if prod(grid) > _MOST_PROGRAMS:
        raise ValueError(f"a grid must have at most {_MOST_PROGRAMS:,} programs, got {prod(grid):,}")
