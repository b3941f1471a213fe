"""From untrusted JSON values to frozen dataclasses, strictly: nothing is converted, nothing is guessed."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


class DecodeError(ValueError):
    """A value does not have the declared shape; the message says where, what was wanted and what came."""


def decode(kind: type[T], value: object, where: str = "message") -> T:
    """`value` (as json.loads returns it) as an instance of `kind`. Raises DecodeError.

    Understands dataclasses (every field by name, unknown names refused, defaults for the missing), tuple[X, ...],
    dict[str, X], X | Y, Literal, str, int, float, bool and None. A bool is no int; an int is accepted as a float.
    """
    return typing.cast(T, _decode(kind, value, where))


def _decode(kind: Any, value: object, where: str) -> object:
    origin = typing.get_origin(kind)
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, value, where)
    if origin in (types.UnionType, typing.Union):
        return _decode_union(kind, value, where)
    if origin is typing.Literal:
        if value not in typing.get_args(kind) or isinstance(value, bool | list | dict):
            raise DecodeError(
                f"{where} must be one of {', '.join(map(str, typing.get_args(kind)))}, got {_short(value)}"
            )
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise DecodeError(f"{where} must be a list, got {_short(value)}")
        item = typing.get_args(kind)[0]
        return tuple(_decode(item, entry, f"{where}[{i}]") for i, entry in enumerate(value))
    if origin in (dict, Mapping):
        if not isinstance(value, dict):
            raise DecodeError(f"{where} must be an object, got {_short(value)}")
        item = typing.get_args(kind)[1]
        return {str(name): _decode(item, entry, f"{where}.{name}") for name, entry in value.items()}
    return _decode_scalar(kind, value, where)


def _decode_scalar(kind: Any, value: object, where: str) -> object:
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return _finite(value, where)
    if kind in (int, float) and isinstance(value, bool):
        raise DecodeError(f"{where} must be a number, got {value}")
    if kind in (int, float, str, bool) and isinstance(value, kind):
        return value
    if kind in (None, types.NoneType) and value is None:
        return None
    raise DecodeError(f"{where} must be {getattr(kind, '__name__', kind)}, got {_short(value)}")


def _finite(value: float, where: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        raise DecodeError(f"{where} must be a finite number, got {_short(value)}") from None
    if not math.isfinite(number):
        raise DecodeError(f"{where} must be a finite number, got {value}")
    return number


def _decode_union(kind: Any, value: object, where: str) -> object:
    reasons: list[DecodeError] = []
    for option in typing.get_args(kind):
        try:
            return _decode(option, value, where)
        except DecodeError as refused:
            # An object was meant to be the dataclass: what is wrong inside it is what the reader needs.
            reasons.insert(0 if isinstance(value, dict) and dataclasses.is_dataclass(option) else len(reasons), refused)
    raise reasons[0] if isinstance(value, dict) else reasons[-1]


def _decode_dataclass(kind: Any, value: object, where: str) -> object:
    if not isinstance(value, dict):
        raise DecodeError(f"{where} must be an object, got {_short(value)}")
    hints = _hints(kind)
    fields = {entry.name: entry for entry in dataclasses.fields(kind) if entry.init}
    unknown = [str(name) for name in value if name not in fields]
    if unknown:
        raise DecodeError(f"{where} must have only the fields {', '.join(fields)}, got {_short(unknown)}")
    given = {}
    for name, entry in fields.items():
        if name in value:
            given[name] = _decode(hints[name], value[name], f"{where}.{name}")
        elif entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING:
            raise DecodeError(f"{where} must have the field {name}")
    return kind(**given)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _short(value: object) -> str:
    try:
        text = repr(value)
    except (RecursionError, ValueError):
        return f"a {type(value).__name__} that is too large to show"
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"
