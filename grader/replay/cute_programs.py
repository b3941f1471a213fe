"""Parse, check and compile the CuTe programs of a trace once, then run them on bound arguments.

Takes MLIR text from an untrusted process; runs none that grader.replay.cute_checking refuses.
"""

from __future__ import annotations

import inspect
import zlib
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from grader.calls.cutedsl import plain
from grader.protocol.trace import CuteProgram
from grader.replay.cute_arguments import STREAM, Packed, check_types, packed
from grader.replay.cute_checking import MULTIPLYING, Needed, check, check_lowered, check_text, refusal
from grader.replay.memory import Unreplayable

_KEPT_PROGRAMS = 32
_MOST_NAMED = 128


@dataclass(frozen=True)
class Bound:
    """A program and its arguments: `run` launches it on the current stream, as often as it is called."""

    executor: Any
    arguments: tuple[Packed, ...]
    streams: tuple[Packed, ...]

    def run(self) -> None:
        """Launch it once, on the present content of its tensors."""
        for one in self.streams:
            one.memory.value = torch.cuda.current_stream().cuda_stream
        self.executor.run_compiled_program([one.address for one in self.arguments])


@dataclass(frozen=True)
class Program:
    """A compiled program. operations: the count of each CuTe operation in its text. types: of its arguments.

    digest: of the operations that do something.
    reached: by the arguments' forms, the places of those that it reaches beyond the end of, as far as they are known.
    """

    name: str
    operations: Mapping[str, int]
    types: tuple[str, ...]
    executor: Any
    digest: str
    reached: dict[tuple[object, ...], tuple[int, ...]] = field(default_factory=dict, compare=False)

    def bind(self, values: Sequence[object]) -> Bound:
        """Bind it to tensors and numbers; None stands for the stream. Raises RefusedFunction."""
        if len(values) != len(self.types):
            raise refusal(f"{self.name[:80]} takes {len(self.types)} arguments, got {len(values)}")
        arguments = tuple(map(packed, self.types, values))
        streams = tuple(one for kind, one in zip(self.types, arguments, strict=True) if kind == STREAM)
        return Bound(self.executor, arguments, streams)


class Programs:
    """The programs of the latest traces."""

    def __init__(self) -> None:
        self._known: dict[CuteProgram, Program] = {}

    def prepare(self, program: CuteProgram) -> Program:
        """Return a compiled program. Raises RefusedFunction if it is not allowed, Unreplayable if it is no text."""
        found = self._known.pop(program, None) or prepare(program.name, text_of(program))
        self._known[program] = found
        while len(self._known) > _KEPT_PROGRAMS:
            del self._known[next(iter(self._known))]
        return found


def text_of(program: CuteProgram) -> str:
    """Return the text of a program. Raises Unreplayable."""
    try:
        raw = zlib.decompressobj().decompress(b64decode(program.data, validate=True), program.nbytes + 1)
        text = raw.decode("ascii")
    except (ValueError, zlib.error) as broken:
        raise Unreplayable(f"a program must be compressed text: {broken}") from broken
    if len(raw) != program.nbytes:
        raise Unreplayable(f"a program must hold {program.nbytes} bytes, got {len(raw)}")
    return text


def prepare(name: str, text: str, arch: str = "", options: Any = None) -> Program:
    """Parse, check and compile a program, for `arch` or for this machine's GPU. Raises RefusedFunction.

    options: of the DSL's compiler; None: its own.
    """
    check_text(text)
    looked = _check_text_alone(text)
    executor = _compile(text, looked.entry, arch, options, has_kernels=looked.has_kernels)
    own = {one: count for one, count in looked.needed.counts.items() if one.startswith("cute.") or one in MULTIPLYING}
    most = sorted(own, key=lambda one: -own[one])[:_MOST_NAMED]
    return Program(name, {one: own[one] for one in most}, looked.types, executor, looked.needed.digest)


@dataclass(frozen=True)
class _CheckedText:
    """The facts of a checked text."""

    entry: str
    types: tuple[str, ...]
    needed: Needed
    has_kernels: bool


def _check_text_alone(text: str) -> _CheckedText:
    """Check a text in a context of its own: the DSL's passes must not find operations that Python still holds."""
    with _parse_module(text) as module:
        entry, needed = check(module)
        types, results = (tuple(map(str, one)) for one in (entry.type.inputs, entry.type.results))
        check_types(types)
        if results != ("i32",):
            raise refusal("a function must return its error code")
        has_kernels = any(one.operation.name == "gpu.module" for one in module.body.operations)
        return _CheckedText(entry.sym_name.value, types, needed, has_kernels)


@contextmanager
def _parse_module(text: str) -> Iterator[Any]:
    """Yield a text as a module. Raises RefusedFunction."""
    from cutlass._mlir import ir

    with ir.Context() as context, ir.Location.unknown():
        # A living context would keep threads of its own.
        context.enable_multithreading(False)
        context.allow_unregistered_dialects = False
        try:
            module = ir.Module.parse(text)
        except Exception as broken:
            raise refusal(f"it must be text that MLIR reads: {_error_text(broken)}") from None
        yield module


def _compile(text: str, entry: str, arch: str, options: Any, *, has_kernels: bool) -> Any:
    """Compile a checked text by the DSL's own pipeline."""
    from cutlass.base_dsl.compiler import CompileOptions
    from cutlass.cutlass_dsl import CuTeDSL
    from cutlass.cutlass_dsl.cuda_jit_executor import CudaDialectJitCompiledFunction

    dsl: Any = CuTeDSL._get_dsl()
    dsl.compile_options = options or CompileOptions()
    libraries = dsl.get_shared_libs()
    pipeline = dsl.preprocess_pipeline(dsl._get_pipeline(None), arch or dsl.envar.arch or "")
    with _parse_module(text) as module:
        try:
            lowered = dsl.compiler_provider.compile(module, pipeline)
        except Exception as broken:
            raise refusal(f"it does not compile: {_error_text(broken)}") from None
        check_lowered(lowered)
        engine = dsl.compiler_provider.jit(lowered, shared_libs=libraries)
    function = dsl._lookup_jit_entry(engine, entry)
    made = CudaDialectJitCompiledFunction(
        lowered, engine, function, inspect.Signature(), entry, {}, False, None, has_gpu_module=has_kernels
    )
    return made if has_kernels and not torch.cuda.is_available() else made.to(None)


def _error_text(raised: Exception) -> str:
    return plain(str(raised))[:300]
