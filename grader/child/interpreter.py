"""Corrections of triton's interpreter, so that what passes there deserves to pass on a GPU."""

from __future__ import annotations

import dis
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


def apply_corrections() -> None:
    """Patch this process's interpreter; before the submission is loaded."""
    # What NumPy says of a kernel's numbers, a GPU would not say.
    warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"triton\.runtime\.interpreter")
    _let_autotuned_kernels_run()
    _poison_masked_loads()


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


# What a kernel may call by name and a compiler understands; anything else is Python that only the interpreter runs.
_BUILTINS = frozenset(
    {"abs", "bool", "float", "getattr", "int", "isinstance", "len", "list", "max", "min", "print", "range"}
)


def python_in_kernel(kernel: Any) -> tuple[str, ...]:
    """Names of Python functions and modules that a kernel's code uses: no GPU compiler would take them."""
    return tuple(dict.fromkeys(_foreign_names(getattr(kernel, "fn", None), set())))


def _foreign_names(function: Any, seen: set[int]) -> Iterator[str]:
    if not isinstance(function, types.FunctionType) or id(function) in seen:
        return
    seen.add(id(function))
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for code in _codes(function.__code__):
        for instruction in dis.get_instructions(code):
            name = instruction.argval
            if instruction.opname == "IMPORT_NAME":
                yield f"import {name}"
            elif instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                if name in function.__globals__:
                    yield from _foreign_value(str(name), function.__globals__[name], seen)
                elif name not in _BUILTINS and hasattr(__builtins__, str(name)):
                    yield str(name)
            elif instruction.opname in ("LOAD_DEREF", "LOAD_CLOSURE") and name in cells:
                yield from _foreign_value(str(name), cells[name].cell_contents, seen)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _foreign_value(name: str, value: Any, seen: set[int]) -> Iterator[str]:
    home = value.__name__ if isinstance(value, types.ModuleType) else type(value).__module__
    if isinstance(value, types.FunctionType | types.BuiltinFunctionType):
        home = value.__module__ or ""
    if home.partition(".")[0] in ("triton", "math"):
        # A nested kernel function is judged by its own code.
        yield from _foreign_names(getattr(value, "fn", None), seen)
    elif callable(value) or isinstance(value, types.ModuleType):
        yield name
