"""Compile Triton kernels for GPUs that need not be there, and run none of them.

Stands in front of Triton's own steps, and gives a Binary for every kernel that is compiled while somebody else launches
it. Triton gets a stand-in for its driver: it names the target, and its launches do nothing. Serves a clean process, in
which no line of a submission's Python runs: what it says of a kernel is a fact.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from time import perf_counter
from types import FunctionType
from typing import Any

from grader.compile import assembly
from grader.compile.driver import stand_in
from grader.compile.static_conditions import ConditionWatch
from grader.gpus import ARCHITECTURES
from grader.protocol.answers import EXACT_IN_JSON, Binary
from grader.protocol.requests import CompileUntil
from grader.syntax import lines_in

_MOST_BINARIES = 16
_MOST_CONFIGURATIONS = 64
_MOST_TEXT = 600
# The last line of a kernel's text that was built from its tree (grader.replay.making).
_DIGEST = re.compile(r"# [0-9a-f]{64}\n\Z")


class _Accepted(Exception):
    """The compiler has accepted a kernel so far, and no more is wanted. shared_bytes: 0 where they are not known."""

    def __init__(self, shared_bytes: int = 0) -> None:
        super().__init__()
        self.shared_bytes = shared_bytes


class _BeforeLLVM:
    """LLVM's bindings, as the backend uses them: whoever translates a kernel to LLVM calls `hear` with it first."""

    def __init__(self, bindings: Any, hear: Callable[[Any], None]) -> None:
        self._bindings = bindings
        self._hear = hear

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bindings, name)

    def to_module(self, kernel: Any, *rest: Any) -> Any:
        """Translate a kernel to LLVM."""
        self._hear(kernel)
        return self._bindings.to_module(kernel, *rest)


class Compiler:
    """Describes what the kernels of this process compile to. `path` is the submission's file.

    announce: hears of every kernel before it is compiled, since a compiler may end the process, and "" afterwards.
    is_verdict: returns whether an exception in compiling is a verdict of the compiler's.
    binaries: of the kernels since `begin`. cut: the number of those that are not listed. conditions: that they decide.
    """

    def __init__(self, path: str, announce: Callable[[str], None], is_verdict: Callable[[BaseException], bool]) -> None:
        self._path = path
        self._is_verdict = is_verdict
        self._announce = announce
        self._every = False
        self._until: CompileUntil = "end"
        self._most_shared_bytes = 0
        # The numbers of configurations of the autotuners that are being tried, innermost last.
        self._tuned: list[int] = []
        self._log = self._ptx = ""
        self._registers: dict[bytes, int] = {}
        self._launch = 0
        self.conditions = ConditionWatch(path)
        self._refusal: BaseException | None = None
        self.binaries: list[Binary] = []
        self.cut = 0

    def install(self) -> None:
        """Stand in front of Triton's compiler. Call it once."""
        from triton import knobs
        from triton.backends import backends
        from triton.runtime.jit import JITFunction

        self.conditions.install()
        # The log says what one thread uses, and only a kernel that is really compiled has one.
        knobs.nvidia.dump_ptxas_log = True
        knobs.compilation.always_compile = True
        knobs.compilation.store_binary_only = False
        backend = backends["nvidia"].compiler
        backend.make_cubin = self._around_ptxas(backend.make_cubin)
        front_end_done = self._before_optimising(backend.make_ttgir)
        is_static = isinstance(inspect.getattr_static(backend, "make_ttgir"), staticmethod)
        backend.make_ttgir = staticmethod(front_end_done) if is_static else front_end_done
        lowering = sys.modules[backend.__module__]
        lowering.llvm = _BeforeLLVM(lowering.llvm, self._once_it_is_known_to_fit)  # type: ignore[attr-defined]
        JITFunction._pack_args = self._around_options(JITFunction._pack_args)
        JITFunction._do_compile = self._around_compile(JITFunction._do_compile)

    def begin(self, target: int, *, every: bool, until: CompileUntil) -> None:
        """Compile for another target from now on, and forget the kernels so far.

        every: every configuration of autotuners is wanted. until: as in requests.Compile.
        """
        from triton.runtime.driver import driver

        driver.set_active(stand_in(ARCHITECTURES[target], registers=self._registers, number=target))
        self._every, self._until = every, until
        self._most_shared_bytes = ARCHITECTURES[target].shared_bytes_per_program
        self.binaries, self.cut, self._refusal = [], 0, None

    def launching(self, number: int) -> None:
        """Begin a launch. number: its place among those of the trace."""
        self._launch = number

    @contextmanager
    def tuning(self, configurations: int) -> Iterator[None]:
        """Tell in the block that kernels are configurations of an autotuner: one of so many."""
        self._tuned.append(configurations)
        try:
            yield
        finally:
            self._tuned.pop()

    def is_noted(self, refusal: BaseException) -> bool:
        """Return whether an exception is the compiler's refusal of a kernel, which is among the binaries."""
        return refusal is self._refusal

    def keep(self, binary: Binary) -> None:
        """List a kernel."""
        most = _MOST_CONFIGURATIONS if self._every else _MOST_BINARIES
        if binary.error and any(replace(one, seconds=binary.seconds) == binary for one in self.binaries):
            # Triton does not cache a failure either, and compiles the kernel again at the next launch.
            return
        if len(self.binaries) < most:
            self.binaries.append(binary)
        else:
            self.cut += 1

    # -- wrappers around Triton's own steps ----------------------------------------------------------------------------

    def _around_options(self, pack: Callable[..., Any]) -> Callable[..., Any]:
        def packed(kernel: Any, backend: Any, kwargs: Any, *rest: Any) -> Any:
            try:
                return pack(kernel, backend, kwargs, *rest)
            except Exception as refused:
                numbers = {name: value for name, value in kwargs.items() if type(value) is int}
                warps, stages = (numbers.pop(name, 0) for name in ("num_warps", "num_stages"))
                self._refuse(kernel, numbers, (warps, stages), refused, "", 0.0)
                raise

        return packed

    def _around_compile(self, compile: Callable[..., Any]) -> Callable[..., Any]:
        def compiled(
            kernel: Any, key: Any, signature: Any, device: Any, constexprs: Any, options: Any, *rest: Any
        ) -> Any:
            constants = _constants(kernel, constexprs)
            self._announce(f"{_name_of(kernel)}, line {self._line_of(kernel)}")
            self._log, started, shared_bytes = "", perf_counter(), 0
            self.conditions.begin_kernel()
            chosen = _option(options, "num_warps"), _option(options, "num_stages")
            with _error_output() as said:
                try:
                    made = compile(kernel, key, signature, device, constexprs, options, *rest)
                except _Accepted as accepted:
                    made, shared_bytes = None, accepted.shared_bytes
                except Exception as refused:
                    if self._is_verdict(refused):
                        self._refuse(kernel, constants, chosen, refused, said(), perf_counter() - started)
                    raise
                finally:
                    self._announce("")
            line, how = self.conditions.other_branch(self._launch)
            if line:
                one = self._without_binary(kernel, constants, chosen, perf_counter() - started)
                why = f"the condition in line {line} {how}"
                self.keep(replace(one, error=why, error_line=line, other_branch=True))
            elif hasattr(made, "asm"):
                self.keep(self._binary_of(kernel, constants, options, made, perf_counter() - started))
            elif shared_bytes > self._most_shared_bytes:
                one = self._without_binary(kernel, constants, chosen, perf_counter() - started)
                self.keep(replace(one, shared_bytes=shared_bytes))
            return made

        return compiled

    def _before_optimising(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def make_ttgir(*args: Any, **kwargs: Any) -> Any:
            # Without products a kernel takes little shared memory, and it costs more to find out.
            if self._until == "read" or (self._until == "fit" and not any(_multiplies(one) for one in args)):
                raise _Accepted
            return make(*args, **kwargs)

        return make_ttgir

    def _once_it_is_known_to_fit(self, kernel: Any) -> None:
        """Stop at the last step before LLVM, where memory is allocated, if no more is wanted."""
        if self._until == "fit":
            raise _Accepted(int(kernel.get_int_attr("ttg.shared") or 0))

    def _around_ptxas(self, make: Callable[..., bytes]) -> Callable[..., bytes]:
        def make_cubin(*args: Any, **kwargs: Any) -> bytes:
            self._ptx = next((text for text in args if isinstance(text, str)), "")
            with redirect_stdout(StringIO()) as printed:
                cubin = make(*args, **kwargs)
            self._log = printed.getvalue()
            self._registers[cubin] = assembly.resources(self._log).registers
            return cubin

        return make_cubin

    # -- descriptions --------------------------------------------------------------------------------------------------

    def _binary_of(
        self, kernel: Any, constants: dict[str, int | bool], options: Any, made: Any, seconds: float
    ) -> Binary:
        texts = {name: str(made.asm.get(name) or "") for name in ("ttir", "ttgir", "ptx")}
        used = assembly.resources(self._log)
        counted = assembly.instructions(texts["ptx"], self._path)
        warps = int(made.metadata.num_warps)
        return Binary(
            kernel=_name_of(kernel),
            line=self._line_of(kernel),
            constants=constants,
            configurations=self._configurations(),
            num_warps=warps,
            num_stages=_option(options, "num_stages"),
            threads=counted.threads or 32 * warps,
            registers=used.registers,
            most_registers=counted.most_registers,
            stack_bytes=used.stack_bytes,
            spill_store_bytes=used.spill_store_bytes,
            spill_load_bytes=used.spill_load_bytes,
            shared_bytes=int(made.metadata.shared),
            tensor_memory_columns=int(getattr(made.metadata, "tmem_size", None) or 0),
            dots=assembly.dots(texts["ttir"]),
            tensor_cores=dict(counted.tensor_cores),
            copies=dict(counted.copies),
            loads={str(width): count for width, count in sorted(counted.loads.items())},
            stores={str(width): count for width, count in sorted(counted.stores.items())},
            narrow=assembly.narrow(texts["ttgir"], counted, self._path, warps)[:16],
            remarks=used.remarks,
            seconds=round(seconds, 3),
        )

    def _refuse(
        self,
        kernel: Any,
        constants: dict[str, int | bool],
        chosen: tuple[int, int],
        refused: Exception,
        said: str,
        seconds: float,
    ) -> None:
        """List a kernel that does not compile. chosen: its warps and stages. said: the compiler's output."""
        why, line = self._explained(refused, said)
        self._refusal = refused
        one = self._without_binary(kernel, constants, chosen, seconds)
        self.keep(replace(one, error=why[:_MOST_TEXT], error_line=line))

    def _without_binary(
        self, kernel: Any, constants: dict[str, int | bool], chosen: tuple[int, int], seconds: float
    ) -> Binary:
        """Describe a kernel that has no binary. chosen: its warps and stages."""
        name, line = _name_of(kernel), self._line_of(kernel)
        return Binary(name, line, constants, self._configurations(), *chosen, seconds=round(seconds, 3))

    def _configurations(self) -> int:
        count = self._tuned[-1] if self._tuned else 0
        return count if count > 1 else 0

    def _explained(self, refused: Exception, said: str) -> tuple[str, int]:
        """Return the reason of a compile error, and the submission's line. said: the compiler's output."""
        # A KeyError's text is quoted.
        text, line = _first_line(str(refused.args[0] if isinstance(refused, KeyError) and refused.args else refused)), 0
        link: BaseException | None = refused
        while link is not None:
            # The innermost function holds the reason; the submission's innermost function, the line.
            source, node = getattr(link, "src", None), getattr(link, "node", None)
            if isinstance(source, str) and node is not None:
                text = _first_line(str(getattr(link, "error_message", "") or "")) or text
                start = self._line_of_text(source)
                line = start + int(getattr(node, "lineno", 1)) - 1 if start else line
            elif link is not refused:
                text = f"{type(link).__name__}: {_first_line(str(link))}"
            link = link.__cause__
        if diagnosed := re.search(rf'{re.escape(self._path)}"?:(\d+):\d+\)?: error: ([^\n]+)', said):
            return diagnosed[2], int(diagnosed[1])
        if type(refused).__name__ == "PTXASError":
            broken = re.search(r"^ptxas.*?(?:, line (\d+); )?(?:error|fatal)\s*: *([^\n]+)", str(refused), re.MULTILINE)
            if broken and broken[1]:
                line = assembly.source_line(self._ptx, int(broken[1]), self._path)
            return f"ptxas: {broken[2] if broken else text}", line
        # Triton quotes the exceptions of its own functions.
        quoted = re.fullmatch(r"""(\w+)\((["'])(.*)\2,?\)""", text)
        return (f"{quoted[1]}: {quoted[3]}" if quoted else text) or type(refused).__name__, line

    def _line_of(self, kernel: Any) -> int:
        """Return the line of a kernel's `def` in the submission's file, or 0."""
        function = getattr(kernel, "fn", None)
        if not isinstance(function, FunctionType) or function.__code__.co_filename != self._path:
            return 0
        return function.__code__.co_firstlineno

    def _line_of_text(self, source: str) -> int:
        """Return the line at which a function's text starts in the file, or 0; its indentation is left out."""
        lines = [text.strip() for text in lines_in(_DIGEST.sub("", source).rstrip())]
        there = [text.strip() for text in lines_in(Path(self._path).read_text(encoding="utf-8"))]
        starts = (start for start, text in enumerate(there) if text == lines[0])
        return next((start + 1 for start in starts if there[start : start + len(lines)] == lines), 0)


@contextmanager
def _error_output() -> Iterator[Callable[[], str]]:
    """Yield a function that returns the text written to descriptor 2: the compiler's own code bypasses sys.stderr."""
    with ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile())
        before = os.dup(2)
        stack.callback(os.close, before)
        os.dup2(file.fileno(), 2)
        stack.callback(os.dup2, before, 2)

        def read_output() -> str:
            file.seek(0)
            return file.read(1 << 16).decode(errors="replace")

        yield read_output


def _constants(kernel: Any, constexprs: dict[Any, Any]) -> dict[str, int | bool]:
    """Return the numbers among a launch's compile-time arguments: block sizes and switches."""
    found: dict[str, int | bool] = {}
    for place, value in constexprs.items():
        parameter = kernel.params[place[0]]
        plain = getattr(value, "value", value)
        shown = type(plain) in (int, bool) and abs(plain) < EXACT_IN_JSON
        if len(place) == 1 and parameter.is_constexpr and shown:
            found[str(parameter.name)[:40]] = plain
    return dict(list(found.items())[:24])


def _multiplies(argument: Any) -> bool:
    """Return whether an argument of a step of the compiler is a kernel with a product of blocks."""
    return hasattr(argument, "get_int_attr") and "tt.dot" in str(argument)


def _option(options: Any, name: str) -> int:
    value = getattr(options, name, 0)
    return value if type(value) is int else 0


def _name_of(kernel: Any) -> str:
    return str(getattr(kernel, "__name__", "") or "kernel")[:80]


def _first_line(text: str) -> str:
    """Return the first line that is not empty, which says most."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:_MOST_TEXT]
