"""The parts of Triton's language that a kernel may name: modules, functions, classes and constants, from a fixed list.

A dotted name is followed through listed modules alone, because Triton's modules also hold Python's own
(`tl.core.builtins`).
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import triton
import triton.language as tl
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import ConstexprFunction, JITFunction

_LIBDEVICE = ("triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice")
GLUON = "triton.experimental.gluon"
_HOPPER = f"{GLUON}.language.nvidia.hopper"
_MODULES = (
    *("math", "triton", "triton.language", "triton.language.core", "triton.language.extra"),
    *("triton.language.extra.cuda", "triton.language.math", "triton.language.random", "triton.language.standard"),
    *("triton.language.target_info", *_LIBDEVICE),
    *(GLUON, f"{GLUON}.language", f"{GLUON}.language.nvidia", f"{GLUON}.language.nvidia.ampere", _HOPPER),
    *(f"{_HOPPER}.mbarrier", f"{_HOPPER}.tma", f"{GLUON}.language.nvidia.ampere.async_copy"),
)
# Classes that a kernel may name; it may also call those in MADE.
_CLASSES = (
    *("block_type", "condition", "const", "constexpr", "dtype", "pointer_type", "range", "static_range", "tensor"),
    *("tensor_descriptor", "tensor_descriptor_base", "tuple"),
)
# Gluon's layouts: they tell which thread holds which element.
_LAYOUTS = (
    *("AutoLayout", "BlockedLayout", "CoalescedLayout", "DotOperandLayout", "MBarrierLayout"),
    *("NVMMADistributedLayout", "NVMMASharedLayout", "SliceLayout", "SwizzledSharedLayout"),
)
# Only Triton may make a block type: its class accepts any object as the type of its elements.
MADE = frozenset({"condition", "constexpr", "dtype", "pointer_type", "range", "static_range", "tuple", *_LAYOUTS})
# It would link a library of the caller's choice.
_BARRED = frozenset({"extern_elementwise"})
_FOLDER = str(Path(triton.__file__).parent)


@dataclass(frozen=True)
class Offered:
    """An object that kernels may name. path: its dotted name."""

    kind: Literal["module", "function", "class", "enum", "data"]
    path: str
    value: Any

    @property
    def name(self) -> str:
        """Return the last part of its path."""
        return self.path.rpartition(".")[2]

    def member(self, name: str) -> Offered | None:
        """Return the member of a module or an enumeration, or None."""
        if self.kind == "module":
            return offers()[self.path].get(name)
        if self.kind == "enum" and name in getattr(self.value, "__members__", ()):
            return Offered("data", f"{self.path}.{name}", self.value.__members__[name])
        return None


def find(path: str) -> Offered | None:
    """Return the object of a dotted name, or None outside the language."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        home = ".".join(parts[:length])
        if home in _MODULES:
            found: Offered | None = Offered("module", home, import_module(home))
            for part in parts[length:]:
                found = found and found.member(part)
            return found
    return None


def keywords(name: str) -> tuple[str, ...]:
    """Return the parameters of a function of triton.language; none for another name."""
    found = find(f"triton.language.{name}")
    if found is None or found.kind != "function":
        return ()
    return tuple(one for one in inspect.signature(getattr(found.value, "fn", found.value)).parameters if one[0] != "_")


@cache
def offers() -> Mapping[str, Mapping[str, Offered]]:
    """Return the objects of each module. Call it before the interpreter replaces them, at the first kernel."""
    return {name: _offered_by(import_module(name)) for name in _MODULES}


def _offered_by(module: ModuleType) -> dict[str, Offered]:
    found = {}
    for name, value in vars(module).items():
        kind = _kind(module, name, value)
        if kind and not name.startswith("_") and not name.endswith("_"):
            path = value.__name__ if kind == "module" else f"{module.__name__}.{name}"
            found[name] = Offered(kind, path, value)
    return found


def _kind(module: ModuleType, name: str, value: Any) -> Literal["module", "function", "class", "enum", "data"] | None:
    if isinstance(value, ModuleType):
        # Triton loads its extra.cuda twice.
        known = sys.modules[value.__name__] if value.__name__ in _MODULES else None
        return "module" if known and getattr(known, "__file__", "") == getattr(value, "__file__", "") else None
    if module is math:
        return "data" if type(value) is float else "function" if inspect.isbuiltin(value) else None
    if value is tl.PropagateNan:
        return "enum"
    if isinstance(value, type):
        is_layout = name in _LAYOUTS and value.__module__.startswith(GLUON)
        return "class" if is_layout or any(value is getattr(tl.core, one) for one in _CLASSES) else None
    if isinstance(value, tl.dtype) or type(value) in (int, float, tl.constexpr):
        return "data"
    return "function" if name not in _BARRED and _is_function(module, value) else None


def _is_function(module: ModuleType, value: Any) -> bool:
    if isinstance(value, JITFunction | InterpretedFunction | ConstexprFunction):
        return bool(value.fn.__code__.co_filename.startswith(_FOLDER))
    return tl.core.is_builtin(value) or (module.__name__ in _LIBDEVICE and inspect.isfunction(value))
