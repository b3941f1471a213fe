"""Decodes untrusted JSON values into frozen dataclasses, strictly: converts nothing, guesses nothing."""

from __future__ import annotations

import dataclasses
import math
import sys
import types
import typing
from collections.abc import Mapping, Sized
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Bounds:
    """Limits on every value, at any depth.

    text: characters of a text or a name. entries: of a list or an object. bits: of an int without its sign. magnitude:
    of a float.

    Without a bound, an int's arithmetic takes as long as its writer wants, and from 4301 digits on Python does not even
    show it.
    """

    text: int
    entries: int
    bits: int
    magnitude: float


_UNBOUNDED = Bounds(sys.maxsize, sys.maxsize, sys.maxsize, math.inf)


class DecodeError(ValueError):
    """A value does not have the declared shape; the message says where, the rule, and the value."""


def decode(kind: type[T], value: object, where: str = "message", bounds: Bounds = _UNBOUNDED) -> T:
    """Return `value` (as json.loads returns it) as an instance of `kind`. Raises DecodeError.

    Understands dataclasses (every field by name, unknown names refused, defaults for the missing), tuple[X, ...],
    dict[str, X], X | Y, Literal, str, int, float, bool and None. A bool is no int; an int is accepted as a float.
    bounds: for untrusted values.
    """
    return typing.cast(T, _decode(kind, value, where, bounds))


def _decode(kind: Any, value: object, where: str, bounds: Bounds) -> object:
    origin = typing.get_origin(kind)
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, value, where, bounds)
    if origin in (types.UnionType, typing.Union):
        return _decode_union(kind, value, where, bounds)
    if origin is typing.Literal:
        if value not in typing.get_args(kind) or isinstance(value, bool | list | dict):
            raise DecodeError(
                f"{where} must be one of {', '.join(map(str, typing.get_args(kind)))}, got {_short(value)}"
            )
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise DecodeError(f"{where} must be a list, got {_short(value)}")
        _require_few(value, where, bounds)
        item = typing.get_args(kind)[0]
        return tuple(_decode(item, entry, f"{where}[{i}]", bounds) for i, entry in enumerate(value))
    if origin in (dict, Mapping):
        if not isinstance(value, dict):
            raise DecodeError(f"{where} must be an object, got {_short(value)}")
        _require_few(value, where, bounds)
        item = typing.get_args(kind)[1]
        return {
            _text(str(name), f"a name in {where}", bounds): _decode(item, entry, f"{where}.{name}", bounds)
            for name, entry in value.items()
        }
    return _decode_scalar(kind, value, where, bounds)


def _decode_scalar(kind: Any, value: object, where: str, bounds: Bounds) -> object:
    if kind in (int, float) and isinstance(value, bool):
        raise DecodeError(f"{where} must be a number, got {value}")
    if kind is float and isinstance(value, int | float):
        return _finite(value, where, bounds)
    if kind is str and isinstance(value, str):
        return _text(value, where, bounds)
    if kind is int and isinstance(value, int) and value.bit_length() > bounds.bits:
        raise DecodeError(f"{where} must be an int of at most {bounds.bits} bits, got one of {value.bit_length()}")
    if kind in (int, bool) and isinstance(value, kind):
        return value
    if kind in (None, types.NoneType) and value is None:
        return None
    raise DecodeError(f"{where} must be {getattr(kind, '__name__', kind)}, got {_short(value)}")


def _require_few(value: Sized, where: str, bounds: Bounds) -> None:
    if len(value) > bounds.entries:
        raise DecodeError(f"{where} must hold at most {bounds.entries} entries, got {len(value)}")


def _text(value: str, where: str, bounds: Bounds) -> str:
    if len(value) > bounds.text:
        raise DecodeError(f"{where} must hold at most {bounds.text} characters, got {len(value)}")
    return value


def _finite(value: float, where: str, bounds: Bounds) -> float:
    try:
        number = float(value)
    except OverflowError:
        raise DecodeError(f"{where} must be a finite number, got {_short(value)}") from None
    if not math.isfinite(number):
        raise DecodeError(f"{where} must be a finite number, got {value}")
    if abs(number) > bounds.magnitude:
        raise DecodeError(f"{where} must lie within ±{bounds.magnitude:g}, got {number:g}")
    return number


def _decode_union(kind: Any, value: object, where: str, bounds: Bounds) -> object:
    reasons: list[DecodeError] = []
    for option in typing.get_args(kind):
        try:
            return _decode(option, value, where, bounds)
        except DecodeError as refused:
            # An object was meant to be the dataclass: the reader needs the error inside it.
            reasons.insert(0 if isinstance(value, dict) and dataclasses.is_dataclass(option) else len(reasons), refused)
    raise reasons[0] if isinstance(value, dict) else reasons[-1]


def _decode_dataclass(kind: Any, value: object, where: str, bounds: Bounds) -> object:
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
            given[name] = _decode(hints[name], value[name], f"{where}.{name}", bounds)
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
