"""What a kernel's own code uses: names that no GPU compiler would take are Python that only an interpreter runs."""

from __future__ import annotations

import builtins
import dis
import sys
import types
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import triton

_TRITON = str(Path(triton.__file__).parent)
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
    outer = closure_of(function)
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


def closure_of(function: types.FunctionType) -> dict[str, Any]:
    """The names of an enclosing function that have a value by now."""
    values = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):
            values[name] = cell.cell_contents
    return values
