"""Stand in front of the CuTe DSL: trace functions, and compile and run none of them in a recorded call."""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from grader.calls.cutedsl import replace_attribute
from grader.compile.cute import on_gpu
from grader.recorder.storages import Unrecordable

# C types of scalars, by MLIR's names.
_SCALARS: Mapping[str, Any] = {
    "i1": ctypes.c_bool,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
}
_STREAM = "!cuda.stream"
_TENSOR = "!cute.memref<"
# An object's address in a function's name would differ in every process.
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")
# The attribute of a CuTe tensor that holds the torch tensor behind it.
_SOURCE = "_torch_tensor"


@dataclass(frozen=True)
class TracedProgram:
    """A traced function: its name, its text, and the types of its arguments.

    unrecordable: the reason against a replay.
    """

    name: str
    text: str
    types: tuple[str, ...]
    unrecordable: str = ""


@dataclass(frozen=True)
class Stream:
    """Any stream: steps are replayed in order."""


Argument = Tensor | Stream | int | float


class CuteLog(Protocol):
    """The log of a recorded call."""

    @property
    def is_on(self) -> bool:
        """Return whether a call is being recorded in this process."""

    def program(self, program: TracedProgram, arguments: Sequence[Argument]) -> None:
        """Record one call of a traced function."""

    def note_unrecordable(self, what: str) -> None:
        """Record that something happened that the trace cannot express."""


def install(log: CuteLog) -> None:
    """Replace the DSL's compiling. Call it before the submission is loaded, but after installing the watcher."""
    from cutlass.cute import runtime
    from cutlass.cutlass_dsl import CuTeDSL
    from cutlass.utils import HardwareInfo

    tensors = _Tensors()
    traced = _traced_class(log, tensors)
    compile_and_cache, make, pointers = (
        CuTeDSL.compile_and_cache,
        runtime._Tensor.__init__,
        runtime._Tensor.__c_pointers__,
    )
    known: dict[str, Any] = {}

    def trace(dsl: Any, module: Any, module_hash: str | None, name: str, *args: Any, **kwargs: Any) -> Any:
        # Without a hash, the function must be compiled anew.
        if module_hash not in known:
            make_from_source = traced(_TracedCompilation(dsl, module, name, args, kwargs, compile_and_cache))
            if module_hash is None:
                return make_from_source
            known[module_hash] = make_from_source
        return known[module_hash]

    def make_from_source(tensor: Any, source: object, *args: Any, **kwargs: Any) -> None:
        says_gpu = isinstance(source, Tensor) and source.is_cuda
        # Passing a tensor to a kernel is not a read by Python.
        with torch._C.DisableTorchFunction():
            is_disguised = says_gpu and isinstance(source, Tensor) and not source.is_cuda
            make(tensor, _Disguised(source) if is_disguised else source, *args, **kwargs)
        if isinstance(source, Tensor):
            vars(tensor)[_SOURCE] = source

    def remember_pointers(tensor: Any) -> Any:
        addresses = pointers(tensor)
        tensors.remember(addresses, vars(tensor).get(_SOURCE))
        return addresses

    replace_attribute(CuTeDSL, "compile_and_cache", trace)
    replace_attribute(runtime._Tensor, "__init__", make_from_source)
    replace_attribute(runtime._Tensor, "__c_pointers__", remember_pointers)
    for name, answer in _HARDWARE.items():
        replace_attribute(HardwareInfo, name, answer)


def _described(hardware: Any, device_id: int = 0) -> None:
    hardware.device_id = device_id


def _gpu_of(hardware: Any) -> Any:
    return torch.cuda.get_device_properties(hardware.device_id)


def _most_clusters(hardware: Any, cluster_size: int, stream: object = None) -> int:  # noqa: ARG001
    return max(1, int(_gpu_of(hardware).multi_processor_count) // cluster_size)


# The DSL's HardwareInfo asks the driver, with a kernel that it compiles and loads. Torch knows the GPU of the call, and
# says so where there is none. A cluster is taken to find room on any multiprocessors.
_HARDWARE: Mapping[str, Callable[..., Any]] = {
    "__init__": _described,
    "get_max_active_clusters": _most_clusters,
    "get_device_multiprocessor_count": lambda hardware: _gpu_of(hardware).multi_processor_count,
    "get_l2_cache_size_in_bytes": lambda hardware: _gpu_of(hardware).L2_cache_size,
}


class _Disguised:
    """A CPU tensor that claims to be on a GPU, for DLPack."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __dlpack__(self, **_: object) -> Any:
        return on_gpu(self._tensor.__dlpack__())

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


class _Tensors:
    """The tensors behind the addresses that compiled functions get."""

    _MOST = 256

    def __init__(self) -> None:
        self._at: dict[int, Tensor | None] = {}

    def remember(self, addresses: Sequence[Any], source: Tensor | None) -> None:
        for address in map(_address, addresses):
            self._at.pop(address, None)
            self._at[address] = source
        while len(self._at) > self._MOST:
            del self._at[next(iter(self._at))]

    def at(self, address: int) -> Tensor:
        """Return the tensor. Raises Unrecordable."""
        if (found := self._at.get(address)) is None:
            raise Unrecordable("a tensor of CuTe's that was not made of one of torch's")
        return found


class _TracedCompilation:
    """A traced function, which is compiled once it is called outside a recorded call."""

    def __init__(
        self,
        dsl: Any,
        module: Any,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        compile_and_cache: Callable[..., Any],
    ) -> None:
        self.name, self.signature, self.given = name, args[1], kwargs
        self.program = _program(dsl, module, name, pipeline=args[0], function=kwargs.get("funcBody"))
        self._dsl, self._module, self._args = dsl, module, args
        self._state = {one: getattr(dsl, one) for one in ("num_kernels", "kernel_info", "compile_options")}
        self._compile = compile_and_cache
        self._made: Any = None

    def compile_function(self) -> Any:
        """Return the compiled function."""
        if self._made is None:
            pipeline, signature, _, *rest = self._args
            with self._as_traced():
                # Set no hash: a cached function would run in a recorded call.
                self._made = self._compile(
                    self._dsl, self._module, None, self.name, pipeline, signature, True, *rest, **self.given
                )
        return self._made

    @contextmanager
    def _as_traced(self) -> Iterator[None]:
        from cutlass._mlir import ir

        context = self._module.context
        with context, ir.Location.unknown(context):
            for name, value in self._state.items():
                setattr(self._dsl, name, value)
            try:
                yield
            finally:
                self._dsl.post_compilation_cleanup()


def _program(dsl: Any, module: Any, name: str, *, pipeline: object, function: object) -> TracedProgram:
    from cutlass.base_dsl.compiler import CompileOptions

    text = str(module)
    types: tuple[str, ...] = ()
    for operation in module.body.operations:
        if operation.operation.name == "func.func" and operation.sym_name.value == name:
            types = tuple(map(str, operation.type.inputs))
    for symbol in sorted({name, *dsl.kernel_info}, key=len, reverse=True):
        text = text.replace(symbol, _ADDRESS.sub("0x0", symbol))
    options = dsl.compile_options
    is_usual = not pipeline and options.to_str().split() == CompileOptions().to_str().split()
    unrecordable = "" if is_usual and not options.enable_tvm_ffi else "cute.compile with options: leave them out"
    return TracedProgram(str(getattr(function, "__name__", "function"))[:80], text, types, unrecordable)


def _traced_class(log: CuteLog, tensors: _Tensors) -> Any:
    """Return the class that stands in for compiled functions."""
    from cutlass.cutlass_dsl.cuda_jit_executor import CudaDialectJitCompiledFunction

    class TracedFunction(CudaDialectJitCompiledFunction):  # type: ignore[misc]
        """A traced function, compiled on its first call outside a recorded call."""

        def __init__(self, traced: _TracedCompilation) -> None:
            given = {name: traced.given.get(name) for name in ("dynamic_args", "dynamic_kwargs")}
            super().__init__(
                None, None, None, traced.signature, traced.name, {}, False, None, has_gpu_module=False, **given
            )
            self._traced = traced

        def run_compiled_program(self, exe_args: Sequence[Any]) -> Any:
            """Record the call, or run it."""
            if not log.is_on:
                return self._traced.compile_function().run_compiled_program(exe_args)
            try:
                log.program(self._traced.program, _arguments(self._traced.program, exe_args, tensors))
            except Unrecordable as unrecordable:
                log.note_unrecordable(str(unrecordable))
            return 0

        def to(self, device: object = None) -> Any:  # noqa: ARG002
            """Return itself: it binds to a device when it runs."""
            return self

    return TracedFunction


def _arguments(program: TracedProgram, pointers: Sequence[Any], tensors: _Tensors) -> list[Argument]:
    """Return the values at the pointers. Raises Unrecordable."""
    if program.unrecordable:
        raise Unrecordable(program.unrecordable)
    if len(program.types) != len(pointers):
        raise Unrecordable(f"a function of {len(program.types)} arguments that is given {len(pointers)}")
    return [_argument(kind, _address(one), tensors) for kind, one in zip(program.types, pointers, strict=True)]


def _argument(kind: str, address: int, tensors: _Tensors) -> Argument:
    if kind == _STREAM:
        return Stream()
    if kind.startswith(_TENSOR):
        return tensors.at(address)
    if kind in _SCALARS:
        value: int | float = _SCALARS[kind].from_address(address).value
        return value
    if kind in ("f16", "bf16"):
        raw = ctypes.string_at(address, 2)
        half: float = struct.unpack("<e", raw)[0] if kind == "f16" else struct.unpack("<f", b"\0\0" + raw)[0]
        return half
    raise Unrecordable(f"an argument of the type {kind[:80]}")


def _address(pointer: Any) -> int:
    return int(getattr(pointer, "value", pointer) or 0)
