"""Turn Python's values into plain data for the trace. Describes a value that it cannot turn; calls none."""

from __future__ import annotations

import dataclasses
import enum
import math
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.protocol.trace import AGGREGATE
from grader.recorder.kernels import is_function_of_kernels, place_in_triton
from grader.recorder.storages import Unrecordable

_MOST_ENTRIES = 1024
_MOST_LEVELS = 8
_MOST_FIELDS = 64
_BITS = 64
_DESCRIPTORS = ("triton.tools.tensor_descriptor", "triton.experimental.gluon.nvidia.hopper")


class ValueEncoder:
    """Turns values into plain data. window, kernel: return the place in the trace of a tensor, and of a function."""

    def __init__(self, window: Callable[[Tensor], int], kernel: Callable[[Any], int]) -> None:
        self._window = window
        self._kernel = kernel

    def encode(self, value: Any, *, tensors: bool = True, within: tuple[int, ...] = ()) -> Any:
        """Return the value for the trace; ["unknown", description] if it cannot be turned.

        within: the ids of what holds it, from the outside in.
        """
        try:
            return self._encode(value, tensors, within)
        except Unrecordable as unrecordable:
            return ["unknown", str(unrecordable)[:200]]
        except RecursionError:
            return ["unknown", "something that holds itself"]

    def _encode(self, value: Any, tensors: bool, within: tuple[int, ...]) -> Any:  # noqa: PLR0911  one return for every kind
        if value is None or type(value) is bool:
            return value
        if type(value) is int:
            return _encode_int(value)
        if type(value) is float:
            return value if math.isfinite(value) else ["float", str(value)]
        if type(value) is str:
            return value if len(value) < 4096 else ["unknown", "a long text"]
        if isinstance(value, Tensor):
            return ["tensor", self._window(value)] if tensors else ["unknown", "a tensor"]
        if id(value) in within:
            raise Unrecordable("something that holds itself")
        if len(within) >= _MOST_LEVELS:
            raise Unrecordable("something that holds too many levels")
        if isinstance(value, tuple | list | dict):
            return self._encode_container(value, tensors, (*within, id(value)))
        return self._encode_object(value, tensors, (*within, id(value)))

    def _encode_container(self, value: Any, tensors: bool, within: tuple[int, ...]) -> Any:
        if len(value) > _MOST_ENTRIES:
            raise Unrecordable(f"a {type(value).__name__} of {len(value)} entries")
        if isinstance(value, dict):
            keys, values = (
                self._encode_all(dict.keys(value), tensors, within),
                self._encode_all(dict.values(value), tensors, within),
            )
            return ["dict", keys, values]
        if isinstance(value, list):
            return ["list", self._encode_all(list.__iter__(value), tensors, within)]
        items = self._encode_all(tuple.__iter__(value), tensors, within)
        fields = getattr(type(value), "_fields", None)
        if fields is not None and len(fields) == len(items):
            return ["record", "tuple", type(value).__name__[:80], [*map(str, fields)], items]
        return ["tuple", items]

    def _encode_all(self, values: Any, tensors: bool, within: tuple[int, ...]) -> list[Any]:
        return [self.encode(one, tensors=tensors, within=within) for one in values]

    def _encode_object(self, value: Any, tensors: bool, within: tuple[int, ...]) -> Any:  # noqa: PLR0911
        from triton.language import constexpr, dtype
        from triton.runtime.jit import TensorWrapper

        if isinstance(value, constexpr):
            return ["constexpr", self.encode(value.value, tensors=False, within=within)]
        if isinstance(value, dtype):
            return ["dtype", "triton", str(value.name)]
        if isinstance(value, torch.dtype):
            return ["dtype", "torch", str(value).removeprefix("torch.")]
        if isinstance(value, torch.device | torch.memory_format | torch.layout):
            # The replayer chooses the device.
            name = "" if isinstance(value, torch.device) else str(value).removeprefix("torch.")
            return ["enum", type(value).__name__, name]
        if is_function_of_kernels(value) or isinstance(value, types.ModuleType | types.BuiltinFunctionType | type):
            return self._encode_named(value, within)
        if isinstance(value, TensorWrapper):
            return ["wrapper", self._window(value.base), str(value.dtype).removeprefix("torch.")]
        if isinstance(value, np.generic):
            return self._encode(value.item(), tensors, within)
        if isinstance(value, enum.Enum):
            return self._encode_member(value, within)
        if type(value).__name__ == "TensorDescriptor" and type(value).__module__ in _DESCRIPTORS:
            return self._encode_descriptor(value, within)
        if isinstance(value, int | float | str):
            kind = next(one for one in (int, float, str) if isinstance(value, one))
            return self._encode(kind(value), tensors, within)
        if dataclasses.is_dataclass(value):
            fields = [one.name for one in dataclasses.fields(value)][:_MOST_FIELDS]
            items = [self.encode(getattr(value, name), tensors=tensors, within=within) for name in fields]
            return ["record", "record", type(value).__name__[:80], fields, items]
        if isinstance(value, types.SimpleNamespace):
            return self._encode_attributes("SimpleNamespace", vars(value), within)
        return self._encode_named(value, within)

    def _encode_named(self, value: Any, within: tuple[int, ...]) -> Any:
        """Return a name of Triton or Python, a function of the text, or a class of constants. Raises Unrecordable."""
        if place := place_in_triton(value):
            return ["language", place]
        if isinstance(value, types.ModuleType):
            return ["language", value.__name__[:200]]
        if is_function_of_kernels(value):
            return ["kernel", self._kernel(value)]
        if isinstance(value, types.BuiltinFunctionType | type) and _is_of_python(value):
            return ["language", f"{value.__module__}.{value.__name__}"]
        if isinstance(value, type) and "__triton_aggregate__" in vars(value):
            raise Unrecordable(f"{AGGREGATE}{value.__name__[:60]}")
        if isinstance(value, type):
            return self._encode_class(value, within)
        raise Unrecordable(f"{_with_article(type(value).__name__)}")

    def _encode_class(self, kind: type, within: tuple[int, ...]) -> Any:
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            # Calling it makes a named tuple.
            fields = [*map(str, kind._fields)]
            return ["record", "class", kind.__name__[:80], fields, [None] * len(fields)]
        if issubclass(kind, enum.Enum):
            return self._encode_attributes(kind.__name__, dict(kind.__members__), within)
        return self._encode_attributes(
            kind.__name__, {n: v for n, v in vars(kind).items() if not n.startswith("_")}, within
        )

    def _encode_member(self, member: enum.Enum, within: tuple[int, ...]) -> Any:
        if isinstance(member, int | str):
            return self.encode(int(member) if isinstance(member, int) else str(member.value))
        items = [member.name, self.encode(member.value, tensors=False, within=within)]
        return ["record", "record", type(member).__name__[:80], ["name", "value"], items]

    def _encode_attributes(self, name: str, held: dict[str, Any], within: tuple[int, ...]) -> Any:
        fields = [one for one in held if one.isidentifier()][:_MOST_FIELDS]
        items = [self.encode(getattr(held[one], "__func__", held[one]), tensors=False, within=within) for one in fields]
        return ["record", "record", name[:80], fields, items]

    def _encode_descriptor(self, value: Any, within: tuple[int, ...]) -> Any:
        rows = [self._encode_all(getattr(value, name), False, within) for name in ("shape", "strides", "block_shape")]
        rounds = bool(getattr(value, "round_f32_to_tf32", False))
        layout = getattr(value, "layout", None)
        fields = [getattr(layout, one.name) for one in dataclasses.fields(layout)] if layout is not None else []
        held = self._encode_all(fields, False, within)
        return ["descriptor", self._window(value.base), *rows, str(value.padding), rounds, held]


def _encode_int(value: int) -> Any:
    if value.bit_length() > _BITS:
        raise Unrecordable(f"an int of {value.bit_length()} bits")
    return value


def _is_of_python(value: Any) -> bool:
    home = sys.modules.get(str(getattr(value, "__module__", "")))
    name = getattr(home, "__name__", "")
    return name in ("builtins", "math") and getattr(home, value.__name__, None) is value


def _with_article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
