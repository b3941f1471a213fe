"""Corrections of triton's interpreter, so that what passes there deserves to pass on a GPU."""

from __future__ import annotations

import builtins
import dis
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import triton

_TRITON = str(Path(triton.__file__).parent)


def apply_corrections() -> None:
    """Patch this process's interpreter; before the submission is loaded."""
    # What NumPy says of a kernel's numbers, a GPU would not say.
    warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"triton\.runtime\.interpreter")
    _let_autotuned_kernels_run()
    _poison_masked_loads()
    _keep_closures()


def _let_autotuned_kernels_run() -> None:
    """@triton.autotune without a driver: nothing is timed, every configuration ties, the first is taken."""
    from triton.runtime.autotuner import Autotuner

    def no_timing(_: Any) -> Callable[..., list[float]]:
        return lambda kernel_call, quantiles=None: [0.0, 0.0, 0.0]

    Autotuner.do_bench = property(no_timing)


def _poison_masked_loads() -> None:
    """A masked lane of a load without `other` is undefined on a GPU, but zero in the interpreter: make it NaN."""
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle, _get_np_dtype

    load = InterpreterBuilder.create_masked_load

    def create_masked_load(
        self: Any, ptrs: Any, mask: Any, other: Any, cache_modifier: Any, eviction_policy: Any, is_volatile: Any
    ) -> Any:
        if other is None:
            kind = ptrs.get_element_ty()
            dtype = np.dtype(_get_np_dtype(kind))
            undefined = np.frombuffer(b"\xff" * dtype.itemsize, dtype)[0]
            other = TensorHandle(np.full(ptrs.data.shape, undefined, dtype), kind)
        return load(self, ptrs, mask, other, cache_modifier, eviction_policy, is_volatile)

    InterpreterBuilder.create_masked_load = create_masked_load


def _keep_closures() -> None:
    """A kernel defined inside a function sees that function's names, as it does when it is compiled."""
    from triton.runtime.interpreter import FunctionRewriter

    compile_and_exec = FunctionRewriter._compile_and_exec

    def with_closure(self: Any, transformed: Any) -> Any:
        rewritten = compile_and_exec(self, transformed)
        outer = _closure_of(self.fn)
        if not outer:
            return rewritten
        seen = {**self.fn.__globals__, **outer}
        bound = types.FunctionType(rewritten.__code__, seen, rewritten.__name__, rewritten.__defaults__)
        bound.__annotations__ = rewritten.__annotations__
        return bound

    FunctionRewriter._compile_and_exec = with_closure


def _closure_of(function: types.FunctionType) -> dict[str, Any]:
    """The names of an enclosing function that have a value by now."""
    values = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):
            values[name] = cell.cell_contents
    return values


class StoreWatch:
    """Notices stores far from every tensor that a kernel was given: to addresses that it got in another way.

    A store just beyond a tensor is a mistake, and the guard bands' business.
    """

    def __init__(self, slack_bytes: int) -> None:
        self._slack_bytes = slack_bytes
        self._extents: list[tuple[int, int]] = []
        self._strayed = False

    def install(self) -> None:
        """Look at every store and atomic of this process's interpreter."""
        from triton.runtime.interpreter import InterpreterBuilder as Builder

        store, rmw, cas = Builder.create_masked_store, Builder.create_atomic_rmw, Builder.create_atomic_cas

        def create_masked_store(builder: Any, ptrs: Any, value: Any, mask: Any, *args: Any, **kwargs: Any) -> Any:
            self._look(ptrs.data, mask.data)
            return store(builder, ptrs, value, mask, *args, **kwargs)

        def create_atomic_rmw(builder: Any, rmw_op: Any, ptr: Any, val: Any, mask: Any, *args: Any) -> Any:
            self._look(ptr.data, mask.data)
            return rmw(builder, rmw_op, ptr, val, mask, *args)

        def create_atomic_cas(builder: Any, ptr: Any, *args: Any) -> Any:
            self._look(ptr.data, np.ones_like(ptr.data, dtype=bool))
            return cas(builder, ptr, *args)

        Builder.create_masked_store = create_masked_store
        Builder.create_atomic_rmw = create_atomic_rmw
        Builder.create_atomic_cas = create_atomic_cas

    def start(self, tensors: Iterable[Any]) -> None:
        """From now on, these are the tensors that a kernel was given."""
        storages = [tensor.untyped_storage() for tensor in tensors]
        self._extents = [
            (one.data_ptr() - self._slack_bytes, one.data_ptr() + one.nbytes() + self._slack_bytes) for one in storages
        ]
        self._strayed = False

    def strayed(self) -> bool:
        """Whether some store since `start` went elsewhere."""
        return self._strayed

    def _look(self, addresses: Any, mask: Any) -> None:
        lanes = np.asarray(addresses).reshape(-1)[np.asarray(mask, dtype=bool).reshape(-1)]
        elsewhere = np.ones(lanes.shape, dtype=bool)
        for start, end in self._extents:
            elsewhere &= (lanes < start) | (lanes >= end)
        self._strayed = self._strayed or bool(elsewhere.any())


# What a kernel may call by name and a compiler understands; anything else is Python that only the interpreter runs.
_BUILTINS = frozenset(
    {"float", "getattr", "hasattr", "int", "isinstance", "len", "list", "max", "min", "print", "range", "tuple"}
)
_POWERFUL = frozenset({"__import__", "compile", "eval", "exec", "globals", "locals", "open", "vars", "setattr"})
_CONSTANTS = (int, float, str, bool, type(None), tuple)


def python_in_kernel(kernel: Any) -> tuple[str, ...]:
    """Names that a kernel's code uses and no GPU compiler would take: Python functions, modules, mutable globals."""
    return tuple(dict.fromkeys(_foreign_names(getattr(kernel, "fn", None), set())))


def _foreign_names(function: Any, seen: set[int]) -> Iterator[str]:
    if not isinstance(function, types.FunctionType) or id(function) in seen:
        return
    seen.add(id(function))
    outer = _closure_of(function)
    for value in function.__defaults__ or ():
        yield from _foreign_value("a default", value, seen)
    for code in _codes(function.__code__):
        for instruction in dis.get_instructions(code):
            name = str(instruction.argval)
            if instruction.opname == "IMPORT_NAME":
                yield f"import {name}"
            elif instruction.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                yield f"global {name}"
            elif instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                if name in function.__globals__:
                    yield from _foreign_value(name, function.__globals__[name], seen)
                elif name not in _BUILTINS and hasattr(builtins, name):
                    yield name
            elif instruction.opname in ("LOAD_DEREF", "LOAD_CLOSURE") and name in outer:
                yield from _foreign_value(name, outer[name], seen)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _foreign_value(name: str, value: Any, seen: set[int]) -> Iterator[str]:
    if type(value).__name__ == "ConstexprFunction" and _is_kernels_own(value):
        # Runs as Python while the kernel is compiled, on compile-time numbers: builtins are its business.
        names = _foreign_names(value.fn, seen)
        yield from (name for name in names if not hasattr(builtins, name) or name in _POWERFUL)
    elif _is_kernels_own(value):
        # A nested kernel function is judged by its own code.
        yield from _foreign_names(getattr(value, "fn", None), seen)
    elif type(value) not in _CONSTANTS:
        yield name


def _is_kernels_own(value: Any) -> bool:
    """Whether a compiler would take it: triton's own modules, functions and objects, math, named tuple classes."""
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] in ("triton", "math") and sys.modules.get(value.__name__) is value
    if isinstance(value, types.FunctionType):
        return value.__code__.co_filename.startswith(_TRITON)
    if isinstance(value, type):
        return _defined_in_triton(value) or (issubclass(value, tuple) and hasattr(value, "_fields"))
    return _defined_in_triton(type(value))


def _defined_in_triton(kind: type) -> bool:
    # By identity: anybody can write "triton" into a class's __module__.
    home = sys.modules.get(kind.__module__) if kind.__module__.partition(".")[0] == "triton" else None
    return getattr(home, kind.__name__, None) is kind
