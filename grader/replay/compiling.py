"""Compile the launches of traces for GPUs that need not be present, and describe the compilers' results.

Takes traces, which are claims; gives facts about the kernels that they launch. Runs nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from triton.runtime.errors import OutOfResources

from grader.compile.announcing import Announcer
from grader.compile.cute import arch_of, keep_machine_code, read_binary
from grader.compile.kernels import Compiler
from grader.gpus import ARCHITECTURES
from grader.protocol.answers import Binary, Compiled
from grader.protocol.requests import Compile
from grader.protocol.trace import Choose, KernelText, Launch, Step, Trace
from grader.replay.cute_programs import Program, prepare, text_of
from grader.replay.kernels import Kernels
from grader.replay.memory import Memory
from grader.replay.run import Run, Uncounted
from grader.replay.timing import Blank
from grader.replay.values import refusal_in

_CPU = torch.device("cpu")
_MOST_TEXT = 600


class TraceCompiler:
    """Compiles one trace after another, in a process that only compiles.

    path: the submission's file. target: the GPU until the first request (a key of ARCHITECTURES). line_of: returns the
    line of a function in the file, by its name.
    """

    def __init__(self, path: str, announcer: Announcer, target: int, line_of: Callable[[str], int]) -> None:
        self._path = path
        self._announcer = announcer
        self._line_of = line_of
        # The compiler might accept code that the allow-list refuses.
        self.compiler = Compiler(path, announcer, lambda raised: refusal_in(raised) is None)
        self.compiler.install()
        self.compiler.begin(target, every=False, until="end")

    def compile(self, request: Compile, trace: Trace, kernels: Callable[[tuple[KernelText, ...]], Kernels]) -> Compiled:
        """Compile the launches of a trace. kernels: builds its kernels.

        A step that fails ends it; if no kernel was compiled before, its exception is raised.
        """
        compiler = self.compiler
        compiler.begin(request.target, every=request.every_configuration, until=request.until)
        compiler.conditions.begin(request.conditions)
        run = _CompiledRun(self, request, trace, kernels)
        stopped = ""
        try:
            run.steps(trace.steps)
        except Exception as raised:
            if not compiler.binaries:
                raise
            stopped = f"{type(raised).__name__}: {raised}".partition("\n")[0][:_MOST_TEXT]
        return Compiled("compiled", tuple(compiler.binaries), compiler.cut, stopped)

    def program(self, place: int, trace: Trace, target: int) -> Program:
        """Return a program of a trace, compiled for a GPU, and describe its kernels. Raises RefusedFunction."""
        told = trace.programs[place]
        name, arch = told.name[:80], arch_of(ARCHITECTURES[target])
        line, started = self._line_of(name), perf_counter()
        with self._announcer.during(f"{name}, line {line}"), tempfile.TemporaryDirectory() as folder:
            made = prepare(told.name, text_of(told), arch, keep_machine_code(Path(folder)))
            if made.executor.has_gpu_module:
                seconds, host_code = perf_counter() - started, str(made.executor.ir_module)
                self.compiler.keep(read_binary(name, line, Path(folder), host_code, self._path, seconds))
        return made


class _CompiledRun(Run):
    """A trace whose launches are compiled, on uninitialised memory. It goes on after a kernel that does not compile."""

    def __init__(self, owner: TraceCompiler, request: Compile, trace: Trace, kernels: Any) -> None:
        super().__init__(_Context(owner, request, trace, kernels), trace, launches="compile")
        self._compiler = owner.compiler
        self.is_trying = False

    def step(self, step: Step) -> None:
        """Execute one step."""
        try:
            super().step(step)
        except Exception as refused:
            # A kernel that does not fit is described too.
            is_known = isinstance(refused, OutOfResources) or self._compiler.is_noted(refused)
            found = refusal_in(refused)
            if isinstance(step, Launch) and found is not None and found.python:
                text = self._trace.kernels[step.kernel]
                self._compiler.keep(
                    Binary(text.name[:80], text.line, {}, 0, 0, 0, error=found.rule, error_line=found.line)
                )
                is_known = True
            if self.is_trying or not is_known:
                raise


class _Context(Uncounted):
    """The context of a compiled run (grader.replay.run.RunContext)."""

    def __init__(self, owner: TraceCompiler, request: Compile, trace: Trace, kernels: Any) -> None:
        self._owner = owner
        self._request = request
        self.kernels = kernels
        self.device = _CPU
        self.memory: Memory = Blank(_CPU, trace)

    def launching(self, number: int) -> None:
        """Begin a launch."""
        self._owner.compiler.launching(number)

    def choose(self, step: Choose, run: Any) -> None:
        """Compile the first configuration that the GPU can launch, or every one.

        Failed ones before it are forgotten, as an autotuner does. If all fail, all are described.
        """
        compiler, known = self._owner.compiler, self.memory.known()
        first, last, is_found = len(compiler.binaries), None, False
        was_trying, run.is_trying = run.is_trying, True
        try:
            for alternative in step.alternatives:
                before = len(compiler.binaries)
                self.memory.drop_but(known)
                try:
                    with compiler.tuning(len(step.alternatives) - step.kept):
                        run.steps(alternative)
                except Exception as refused:
                    found = refusal_in(refused)
                    if found is not None and not found.python:
                        raise
                    last = refused
                    continue
                is_found = True
                if not self._request.every_configuration:
                    del compiler.binaries[first:before]
                    break
        finally:
            run.is_trying = was_trying
        if last is not None and not is_found and (was_trying or len(compiler.binaries) == first):
            raise last

    def program(self, place: int, trace: Trace) -> Program:
        """Return a compiled program, and describe its kernels. Raises RefusedFunction."""
        return self._owner.program(place, trace, self._request.target)
