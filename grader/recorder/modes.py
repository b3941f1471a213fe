"""Modes of torch that tell the recorder about a call: operators that compute, supporting operators, escaping values.

Nothing here changes a result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from grader.calls.modes import LightMode, tensors_in
from grader.exercise.tensors import is_whole
from grader.protocol.operators import NUMBERING, SHAPING, SUPPORTING

# Ways for values to leave a tensor without an operator of ATen.
_ESCAPES = frozenset({"cpu", "numpy", "tolist", "__array__", "__dlpack__"})
# Namespaces of torch's own operators, except those that compute nothing. Operators that the submission registers later
# call these, which are seen when they run.
_COMPUTING = {name.partition("::")[0] for name in torch._C._dispatch_get_all_op_names()} - {
    *("profiler", "debugprims", "prim"),
}


class Observer(Protocol):
    """An object that hears what torch does."""

    @property
    def is_on(self) -> bool:
        """Return whether a call is being observed."""

    def note_outside_work(self, name: str, tensors: Sequence[Tensor] = ()) -> None:
        """Hear that something computed with these tensors, or that their values escaped."""

    def run_operator(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """Run an operator that does no part of the work. Returns its result."""


class Functions(TorchFunctionMode):
    """Reports values that leave a tensor without an operator."""

    def __init__(self, observer: Observer) -> None:
        super().__init__()
        self._observer = observer

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if self._observer.is_on and (name in _ESCAPES or (name == "to" and _names_the_cpu(args, kwargs or {}))):
            self._observer.note_outside_work(f"Tensor.{'cpu' if name == 'to' else name}", tensors_in(args[:1]))
        return func(*args, **(kwargs or {}))


def _names_the_cpu(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    given = (*args[1:2], kwargs.get("device"))
    return any(str(one) == "cpu" for one in given if isinstance(one, str | torch.device))


class Operators(LightMode):  # type: ignore[no-untyped-call]
    """Reports operators."""

    def __init__(self, observer: Observer) -> None:
        super().__init__()
        self._observer = observer

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given, observer = kwargs or {}, self._observer
        namespace, _, name = func._schema.name.partition("::")
        if not observer.is_on:
            return func(*args, **given)
        if namespace == "aten" and _is_no_work(name, args, given):
            return observer.run_operator(func, args, given)
        if namespace in _COMPUTING and not (namespace == "aten" and func.is_view):
            observer.note_outside_work(f"{namespace}.{name}", tensors_in((args, tuple(given.values()))))
        return func(*args, **given)


def _is_no_work(name: str, args: Any, kwargs: Mapping[str, Any]) -> bool:
    if name in SUPPORTING | SHAPING:
        return not _moves_away(name, args, kwargs)
    if name == "div" and not kwargs.get("rounding_mode"):
        return False
    # The shape of a masked selection depends on values, and a trace holds shapes.
    masks = name == "index" and any(one.dtype == torch.bool for one in tensors_in(args[1]))
    return name in NUMBERING and not masks and _has_whole_numbers_alone((args, *kwargs.values()))


def _has_whole_numbers_alone(value: Any) -> bool:
    """Return whether all values are whole numbers, so that results computed from them are whole."""
    if isinstance(value, tuple | list):
        return all(map(_has_whole_numbers_alone, value))
    dtype = value.dtype if isinstance(value, Tensor) else value
    if isinstance(dtype, torch.dtype):
        return is_whole(dtype)
    return not isinstance(value, float | complex)


def _moves_away(name: str, args: Any, kwargs: Mapping[str, Any]) -> bool:
    return name == "_to_copy" and bool(args) and kwargs.get("device") not in (None, args[0].device)
