"""Compiles the Triton kernels that a launcher launches, for a GPU that need not be there, and runs none of them.

Takes a call of the submission's own launch code, so that types, block sizes, divisibility and the autotuner's choices
are those of a real launch; gives a Binary for every kernel. Triton gets a stand-in for its driver: it names the target,
and its launches do nothing.
"""

from __future__ import annotations

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
from types import FrameType, FunctionType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from grader.calls.modes import LightMode
from grader.compile import assembly
from grader.compile import cute as cutecompiling
from grader.compile.disguise import Disguise, pretend
from grader.compile.driver import stand_in
from grader.exercise.gpus import ARCHITECTURES
from grader.protocol.messages import Binary, Compiled

_MOST_BINARIES = 16
_MOST_CONFIGURATIONS = 64
_MOST_TEXT = 600
# Larger numbers lose digits in some readers of JSON.
_LARGEST_CONSTANT = 1 << 53
_INVALID = [float("inf")] * 3


# Contractions take minutes on a CPU, at sizes that are nothing to a GPU.
_CONTRACTIONS = frozenset({"mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "convolution"})
_ATTENTION = "_scaled_dot_product"


class WithoutProducts(LightMode):  # type: ignore[no-untyped-call]
    """A mode in which torch's matrix products only allocate their results: no launch depends on the values."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        namespace, _, name = func._schema.name.partition("::")
        multiplies = name in _CONTRACTIONS or name.startswith(_ATTENTION)
        if namespace != "aten" or not multiplies or func._schema.is_mutable:
            return func(*args, **given)
        result = func(*tree_map(_shape_of, args), **tree_map(_shape_of, given))
        return tree_map(lambda one: torch.empty_like(one, device="cpu") if isinstance(one, Tensor) else one, result)


def _shape_of(one: Any) -> Any:
    return one.to("meta") if isinstance(one, Tensor) else one


class _CompileRefused(Exception):
    """A kernel does not compile; the reason is already noted."""


class _Unrecognised(Exception):
    """A launch passes an argument that neither kernel nor compiler takes; the text names it."""


class Compiler:
    """Compiles the kernels of this process for one target. `path` is the submission's file."""

    def __init__(self, capability: int, path: str) -> None:
        self._target = ARCHITECTURES[capability]
        self._path = path
        self._binaries: list[Binary] = []
        self._cut = 0
        self._every = False
        self._autotuner: Any = None
        self._trying = False
        self._log = self._ptx = ""
        self._registers: dict[bytes, int] = {}
        self._announce: Callable[[str], None] = lambda text: None

    def install(self) -> None:
        """Replace Triton's driver. Call it before the submission is loaded."""
        from triton import knobs
        from triton.backends import backends
        from triton.runtime.autotuner import Autotuner
        from triton.runtime.driver import driver
        from triton.runtime.jit import JITFunction

        driver.set_active(stand_in(self._target, registers=self._registers))
        pretend(self._target)
        # The log says what one thread uses, and only a kernel that is really compiled has one.
        knobs.nvidia.dump_ptxas_log = True
        knobs.compilation.always_compile = True
        knobs.compilation.store_binary_only = False
        backend = backends["nvidia"].compiler
        backend.make_cubin = self._around_ptxas(backend.make_cubin)
        JITFunction.run = self._around_run(JITFunction.run)
        JITFunction._pack_args = self._around_options(JITFunction._pack_args)
        JITFunction._do_compile = self._around_compile(JITFunction._do_compile)
        Autotuner.run = self._around_tuning(Autotuner.run)
        Autotuner.do_bench = property(lambda autotuner: self._trial)

    def install_cute(self) -> None:
        """Compile the kernels of the CuTe DSL as well, from now on."""
        cutecompiling.install(self._target, self._path, self._keep, self._pass_on)

    def _pass_on(self, text: str) -> None:
        # The listener is known only when a call begins.
        self._announce(text)

    @contextmanager
    def pretending(self) -> Iterator[None]:
        """Let tensors claim to be on the target while the block runs."""
        with Disguise():
            yield

    def compile(self, call: Callable[[], object], announce: Callable[[str], None], *, every: bool) -> Compiled:
        """Call a launcher and return the kernels that it compiled.

        announce: hears of every kernel before it is compiled, since a compiler may end the process. every: compile
        every configuration of an autotuner. An exception of the launcher before the first kernel is raised again.
        """
        self._binaries, self._cut, self._every, self._announce = [], 0, every, announce
        stopped = ""
        try:
            with self.pretending(), WithoutProducts():
                call()
        except BaseException as raised:
            if not self._binaries:
                raise
            stopped = f"{type(raised).__name__}: {_first_line(str(raised))}"[:_MOST_TEXT]
        return Compiled("compiled", tuple(self._binaries), self._cut, stopped)

    # -- wrappers around Triton's own steps ----------------------------------------------------------------------------

    def _around_run(self, run: Callable[..., Any]) -> Callable[..., Any]:
        from triton.runtime.errors import OutOfResources

        def launch(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return run(kernel, *args, **kwargs)
            except (_CompileRefused, OutOfResources):
                # The other kernels of this call are still worth compiling.
                if self._trying:
                    raise
                return None

        return launch

    def _around_options(self, pack: Callable[..., Any]) -> Callable[..., Any]:
        def packed(kernel: Any, backend: Any, kwargs: Any, *rest: Any) -> Any:
            try:
                return pack(kernel, backend, kwargs, *rest)
            except Exception as refused:
                numbers = {name: value for name, value in kwargs.items() if type(value) is int}
                chosen = SimpleNamespace(num_warps=numbers.pop("num_warps", 0), num_stages=numbers.pop("num_stages", 0))
                why = _unrecognised(refused, kernel, backend, kwargs) or refused
                self._keep(self._failed(kernel, numbers, chosen, why, "", 0.0))
                raise _CompileRefused from refused

        return packed

    def _around_compile(self, compile: Callable[..., Any]) -> Callable[..., Any]:
        def compiled(
            kernel: Any, key: Any, signature: Any, device: Any, constexprs: Any, options: Any, *rest: Any
        ) -> Any:
            constants = _constants(kernel, constexprs)
            self._announce(f"{_name_of(kernel)}, line {self._line_of(kernel)}")
            self._log, started = "", perf_counter()
            with _error_output() as said:
                try:
                    made = compile(kernel, key, signature, device, constexprs, options, *rest)
                except Exception as refused:
                    seconds = perf_counter() - started
                    self._keep(self._failed(kernel, constants, options, refused, said(), seconds))
                    raise _CompileRefused from refused
                finally:
                    self._announce("")
            if hasattr(made, "asm"):
                self._keep(self._binary_of(kernel, constants, options, made, perf_counter() - started))
            return made

        return compiled

    def _around_ptxas(self, make: Callable[..., bytes]) -> Callable[..., bytes]:
        def make_cubin(*args: Any, **kwargs: Any) -> bytes:
            self._ptx = next((text for text in args if isinstance(text, str)), "")
            with redirect_stdout(StringIO()) as printed:
                cubin = make(*args, **kwargs)
            self._log = printed.getvalue()
            self._registers[cubin] = assembly.resources(self._log).registers
            return cubin

        return make_cubin

    def _around_tuning(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def tuned(autotuner: Any, *args: Any, **kwargs: Any) -> Any:
            tuning = SimpleNamespace(count=len(autotuner.configs), start=len(self._binaries), found=False)
            outer, self._autotuner = self._autotuner, tuning
            try:
                return run(autotuner, *args, **kwargs)
            finally:
                self._autotuner = outer

        return tuned

    def _trial(self, kernel_call: Callable[[], object], **_: object) -> list[float]:
        """Try a configuration instead of timing it; return its times.

        The first that a launch can use wins. The others are tried only if every configuration is asked for. Failed
        ones before it are forgotten, as an autotuner does.
        """
        tuning, before = self._autotuner, len(self._binaries)
        if tuning is None or (tuning.found and not self._every):
            return _INVALID
        self._trying = True
        try:
            kernel_call()
        except Exception:
            return _INVALID
        finally:
            self._trying = False
        if not (tuning.found or self._every):
            del self._binaries[tuning.start : before]
        tuning.found = True
        return [0.0] * 3

    # -- notes ---------------------------------------------------------------------------------------------------------

    def _keep(self, binary: Binary) -> None:
        most = _MOST_CONFIGURATIONS if self._every else _MOST_BINARIES
        if binary.error and any(replace(one, seconds=binary.seconds) == binary for one in self._binaries):
            # Triton does not cache a failure either, and compiles the kernel again at the next launch.
            return
        if len(self._binaries) < most:
            self._binaries.append(binary)
        else:
            self._cut += 1

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

    def _failed(
        self,
        kernel: Any,
        constants: dict[str, int | bool],
        options: Any,
        refused: Exception,
        said: str,
        seconds: float,
    ) -> Binary:
        why, line = self._explained(refused, said)
        return Binary(
            kernel=_name_of(kernel),
            line=self._line_of(kernel),
            constants=constants,
            configurations=self._configurations(),
            num_warps=_option(options, "num_warps"),
            num_stages=_option(options, "num_stages"),
            seconds=round(seconds, 3),
            error=why[:_MOST_TEXT],
            error_line=line,
        )

    def _configurations(self) -> int:
        count = self._autotuner.count if self._autotuner else 0
        return count if count > 1 else 0

    def _explained(self, refused: Exception, said: str) -> tuple[str, int]:
        """Return the reason of a compile error, and the submission's line. said: the compiler's output."""
        if isinstance(refused, _Unrecognised):
            return str(refused), self._launching_line()
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

    def _launching_line(self) -> int:
        """Return the submission's line that is being executed, which is the launch, or 0."""
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame.f_code.co_filename != self._path:
            frame = frame.f_back
        return frame.f_lineno if frame else 0

    def _line_of(self, kernel: Any) -> int:
        """Return the line of a kernel's `def` in the submission's file, or 0."""
        function = getattr(kernel, "fn", None)
        if not isinstance(function, FunctionType) or function.__code__.co_filename != self._path:
            return 0
        return self._line_of_text(str(kernel.src)) or function.__code__.co_firstlineno

    def _line_of_text(self, source: str) -> int:
        """Return the line at which a function's text starts in the file, or 0; Triton strips its indentation."""
        lines = [text.strip() for text in source.rstrip().splitlines()]
        there = [text.strip() for text in Path(self._path).read_text(encoding="utf-8").splitlines()]
        starts = (start for start, text in enumerate(there) if text == lines[0])
        return next((start + 1 for start in starts if there[start : start + len(lines)] == lines), 0)


def _unrecognised(refused: Exception, kernel: Any, backend: Any, kwargs: dict[str, Any]) -> _Unrecognised | None:
    """Return the arguments that neither kernel nor compiler takes, as an exception; None for any other reason.

    Kernels written for other GPUs pass options of those GPUs' compilers, often several.
    """
    if not (isinstance(refused, KeyError) and "unrecognised" in str(refused)):
        return None
    taken = {param.name for param in kernel.params} | set(backend.parse_options(kwargs).__dict__)
    names = [name for name in kwargs if name not in taken]
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    leave = "leave it out" if len(names) == 1 else "leave them out"
    return _Unrecognised(
        f"the launch passes {listed}, for which the kernel has no argument and NVIDIA's compiler no option: {leave}"
    )


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
        shown = type(plain) in (int, bool) and abs(plain) < _LARGEST_CONSTANT
        if len(place) == 1 and parameter.is_constexpr and shown:
            found[str(parameter.name)[:40]] = plain
    return dict(list(found.items())[:24])


def _option(options: Any, name: str) -> int:
    value = getattr(options, name, 0)
    return value if type(value) is int else 0


def _name_of(kernel: Any) -> str:
    return str(getattr(kernel, "__name__", "") or "kernel")[:80]


def _first_line(text: str) -> str:
    """Return the first line that is not empty, which says most."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:_MOST_TEXT]
