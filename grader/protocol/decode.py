"""Decode untrusted JSON values into frozen dataclasses, strictly: convert nothing, guess nothing."""

from __future__ import annotations

import dataclasses
import math
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sized
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
    try:
        return typing.cast(T, _decoder(kind)(value, bounds))
    except _Refused as refused:
        raise DecodeError(f"{refused.about}{where}{''.join(refused.path)} {refused.rule}") from None


class _Refused(Exception):
    """A value is refused. path: of the value, built on the way out, for most values are taken."""

    def __init__(self, rule: str, about: str = "") -> None:
        self.rule = rule
        self.about = about
        self.path: list[str] = []

    def below(self, step: str) -> _Refused:
        """Return the same with one more step in front of its path."""
        self.path.insert(0, step)
        return self


_Decoder = Callable[[Any, Bounds], object]


def _decoder(kind: Any) -> _Decoder:
    """Return what decodes values of a kind."""
    origin = typing.get_origin(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass(typing.cast(type, kind))
    if origin in (types.UnionType, typing.Union):
        return _union(typing.get_args(kind))
    if origin is typing.Literal:
        return _literal(typing.get_args(kind))
    if origin is tuple:
        return _tuple(_decoder(typing.get_args(kind)[0]))
    if origin in (dict, Mapping):
        return _mapping(_decoder(typing.get_args(kind)[1]))
    return _SCALARS.get(kind) or _unknown(kind)


def _literal(options: tuple[object, ...]) -> _Decoder:
    def decoded(value: Any, _: Bounds) -> object:
        if isinstance(value, bool | list | dict) or value not in options:
            raise _Refused(f"must be one of {', '.join(map(str, options))}, got {_short(value)}")
        return value

    return decoded


def _tuple(item: _Decoder) -> _Decoder:
    def decoded(value: Any, bounds: Bounds) -> object:
        if not isinstance(value, list | tuple):
            raise _Refused(f"must be a list, got {_short(value)}")
        _require_few(value, bounds)
        found: list[object] = []
        try:
            for entry in value:
                found.append(item(entry, bounds))  # noqa: PERF401  its length is the place of a refused one
        except _Refused as refused:
            raise refused.below(f"[{len(found)}]") from None
        return tuple(found)

    return decoded


def _mapping(item: _Decoder) -> _Decoder:
    def decoded(value: Any, bounds: Bounds) -> object:
        if not isinstance(value, dict):
            raise _Refused(f"must be an object, got {_short(value)}")
        _require_few(value, bounds)
        found: dict[str, object] = {}
        for name, entry in value.items():
            text = str(name)
            if len(text) > bounds.text:
                raise _Refused(_too_long(text, bounds), "a name in ")
            try:
                found[text] = item(entry, bounds)
            except _Refused as refused:
                raise refused.below(f".{name}") from None
        return found

    return decoded


def _union(kinds: tuple[Any, ...]) -> _Decoder:
    options = [(dataclasses.is_dataclass(kind), _decoder(kind)) for kind in kinds]

    def decoded(value: Any, bounds: Bounds) -> object:
        reasons: list[_Refused] = []
        for is_object, option in options:
            try:
                return option(value, bounds)
            except _Refused as refused:
                # An object was meant to be the dataclass: the reader needs the error inside it.
                reasons.insert(0 if isinstance(value, dict) and is_object else len(reasons), refused)
        raise reasons[0] if isinstance(value, dict) else reasons[-1]

    return decoded


@cache
def _dataclass(kind: Any) -> _Decoder:
    """Look at a dataclass once, for a trace holds thousands. Unions have no cache: `int | float` is `float | int`."""
    hints = typing.get_type_hints(kind)
    fields = {entry.name: _decoder(hints[entry.name]) for entry in dataclasses.fields(kind) if entry.init}
    required = [
        entry.name
        for entry in dataclasses.fields(kind)
        if entry.init and entry.default is entry.default_factory is dataclasses.MISSING
    ]

    def decoded(value: Any, bounds: Bounds) -> object:
        if not isinstance(value, dict):
            raise _Refused(f"must be an object, got {_short(value)}")
        if not value.keys() <= fields.keys():
            unknown = [str(name) for name in value if name not in fields]
            raise _Refused(f"must have only the fields {', '.join(fields)}, got {_short(unknown)}")
        given: dict[str, object] = {}
        for name, field in fields.items():
            if name in value:
                try:
                    given[name] = field(value[name], bounds)
                except _Refused as refused:
                    raise refused.below(f".{name}") from None
            elif name in required:
                raise _Refused(f"must have the field {name}")
        return kind(**given)

    return decoded


def _text(value: Any, bounds: Bounds) -> object:
    if not isinstance(value, str):
        raise _of_another_kind(str, value)
    if len(value) > bounds.text:
        raise _Refused(_too_long(value, bounds))
    return value


def _int(value: Any, bounds: Bounds) -> object:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _of_another_kind(int, value)
    if value.bit_length() > bounds.bits:
        raise _Refused(f"must be an int of at most {bounds.bits} bits, got one of {value.bit_length()}")
    return value


def _float(value: Any, bounds: Bounds) -> object:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _of_another_kind(float, value)
    try:
        number = float(value)
    except OverflowError:
        raise _Refused(f"must be a finite number, got {_short(value)}") from None
    if not math.isfinite(number):
        raise _Refused(f"must be a finite number, got {value}")
    if abs(number) > bounds.magnitude:
        raise _Refused(f"must lie within ±{bounds.magnitude:g}, got {number:g}")
    return number


def _bool(value: Any, _: Bounds) -> object:
    if not isinstance(value, bool):
        raise _of_another_kind(bool, value)
    return value


def _none(value: Any, _: Bounds) -> object:
    if value is not None:
        raise _of_another_kind(types.NoneType, value)
    return value


_SCALARS: Mapping[Any, _Decoder] = {
    str: _text,
    int: _int,
    float: _float,
    bool: _bool,
    None: _none,
    types.NoneType: _none,
}


def _unknown(kind: Any) -> _Decoder:
    def decoded(value: Any, _: Bounds) -> object:
        raise _of_another_kind(kind, value)

    return decoded


def _of_another_kind(kind: Any, value: object) -> _Refused:
    if kind in (int, float) and isinstance(value, bool):
        return _Refused(f"must be a number, got {value}")
    return _Refused(f"must be {getattr(kind, '__name__', kind)}, got {_short(value)}")


def _require_few(value: Sized, bounds: Bounds) -> None:
    if len(value) > bounds.entries:
        raise _Refused(f"must hold at most {bounds.entries} entries, got {len(value)}")


def _too_long(value: str, bounds: Bounds) -> str:
    return f"must hold at most {bounds.text} characters, got {len(value)}"


def _short(value: object) -> str:
    try:
        text = repr(value)
    except (RecursionError, ValueError):
        return f"a {type(value).__name__} that is too large to show"
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"
