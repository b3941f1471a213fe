"""What a recorder would say of a file's kernels: they are found in its imported module, and nothing is launched."""

from __future__ import annotations

import ast
import importlib.util
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import ConstexprFunction, JITFunction

from grader.exercise.planted import read
from grader.protocol.trace import (
    ConstexprValue,
    DictValue,
    DtypeValue,
    KernelText,
    KernelValue,
    LanguageValue,
    ListValue,
    NamedValue,
    TupleValue,
    UnknownValue,
    Value,
)

_JIT = (InterpretedFunction, JITFunction)
_KINDS = {"ConstexprFunction": "constexpr", "GluonJITFunction": "gluon"}
_FOLDER = str(Path(triton.__file__).parent)


class Claims:
    """Kernels and what they name, in the order in which they are met."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.told: list[KernelText] = []
        self._places: dict[int, int] = {}

    def add(self, kernel: Any) -> int:
        """Return the number of a kernel."""
        if id(kernel) not in self._places:
            place = self._places[id(kernel)] = len(self.told)
            self.told.append(None)  # type: ignore[arg-type]
            fn = kernel.fn
            outer = dict(zip(fn.__code__.co_freevars, (one.cell_contents for one in fn.__closure__ or ()), strict=True))
            seen = {**fn.__globals__, **outer}
            names = {name: self._value(seen[name]) for name in sorted(_names(fn.__code__)) if name in seen}
            options = getattr(kernel, "kwargs", {})
            self.told[place] = KernelText(
                fn.__name__,
                fn.__code__.co_firstlineno,
                _KINDS.get(type(kernel).__name__, "jit"),
                names,
                {name: self._value(value) for name, value in options.items() if value is not None},
            )
        return self._places[id(kernel)]

    def _value(self, value: Any) -> Value:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, tl.constexpr):
            return ConstexprValue(self._value(value.value))
        if isinstance(value, types.ModuleType):
            return LanguageValue(value.__name__)
        if isinstance(value, (*_JIT, ConstexprFunction)):
            if value.fn.__code__.co_filename == self._path:
                return KernelValue(self.add(value))
            return LanguageValue(f"{value.fn.__module__}.{value.fn.__name__}")
        if isinstance(value, tl.dtype):
            return DtypeValue("triton", value.name)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            items = tuple(self._value(one) for one in value)
            return NamedValue("tuple", type(value).__name__, tuple(value._fields), items)
        if isinstance(value, tuple | list):
            made = TupleValue if isinstance(value, tuple) else ListValue
            return made(tuple(self._value(one) for one in value))
        if isinstance(value, dict):
            return DictValue(tuple((self._value(key), self._value(one)) for key, one in value.items()))
        if getattr(value, "__module__", "").startswith("triton."):
            return LanguageValue(f"{value.__module__}.{value.__name__}")
        return UnknownValue(f"a {type(value).__name__}")


def _names(code: types.CodeType) -> set[str]:
    found = {*code.co_names, *code.co_freevars}
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            found |= _names(one)
    return found


def claims_of(path: Path) -> Claims:
    """Import a file, and say what it says of its kernels."""
    spec = importlib.util.spec_from_file_location(f"claimed_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    claims = Claims(str(path))
    for value in list(vars(module).values()):
        for kernel in _kernels(value):
            if kernel.fn.__code__.co_filename == str(path):
                claims.add(kernel)
    return claims


def _kernels(value: Any) -> Iterator[Any]:
    while not isinstance(value, (*_JIT, ConstexprFunction)) and hasattr(value, "fn"):
        value = value.fn
    if isinstance(value, (*_JIT, ConstexprFunction)):
        yield value


def defines_kernels(path: Path) -> bool:
    """Whether a file's text decorates a function at its top level."""
    tree = ast.parse(read(path).text)
    return any(isinstance(node, ast.FunctionDef) and node.decorator_list for node in tree.body)
