"""Decode an untrusted trace, strictly and within bounds.

Raises DecodeError, which names the place and the rule. A decoded trace may still claim anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from grader.protocol.answers import Form
from grader.protocol.decode import Bounds, DecodeError, decode
from grader.protocol.trace import (
    MOST_CONSTANT_BYTES,
    MOST_DEPTH,
    MOST_PROGRAM_BYTES,
    MOST_PROGRAMS,
    MOST_STEPS,
    MOST_WINDOWS,
    Choose,
    Constant,
    ConstexprValue,
    CuteCall,
    CuteProgram,
    DescriptorValue,
    DictValue,
    DtypeValue,
    EnumValue,
    Free,
    KernelText,
    KernelValue,
    LanguageValue,
    Launch,
    ListValue,
    NamedValue,
    Operator,
    Output,
    Recorded,
    Renewal,
    Step,
    StreamStep,
    TensorValue,
    Trace,
    TupleValue,
    UnknownValue,
    Value,
    Window,
    WrapperValue,
    is_out_of_order,
)

_MOST_TEXT = 4096
_MOST_ENTRIES = 4096
_BITS = 64
_PLAIN = Bounds(_MOST_TEXT, _MOST_ENTRIES, _BITS, math.inf)
_DATA_CHARACTERS = 4 << 20


def decode_trace(message: object) -> Trace:
    """Return the trace that an untrusted message holds. Raises DecodeError."""
    names = ("arguments", "windows", "kernels", "steps", "outputs")
    has_programs = isinstance(message, dict) and "programs" in message
    given = _fields(message, (*names, "programs") if has_programs else names, "trace")
    arguments = decode(dict[str, int], given["arguments"], "trace.arguments", _PLAIN)
    rows = _list(given["windows"], "trace.windows", MOST_WINDOWS)
    windows = tuple(_window(one, f"trace.windows[{i}]") for i, one in enumerate(rows))
    rows = _list(given.get("programs", []), "trace.programs")
    if len(rows) > MOST_PROGRAMS:
        raise DecodeError(f"trace.programs must hold at most {MOST_PROGRAMS} entries, got {len(rows)}")
    programs = tuple(_program(one, f"trace.programs[{i}]") for i, one in enumerate(rows))
    reader = _Reader(len(windows), len(_list(given["kernels"], "trace.kernels")), len(programs))
    kernels = tuple(reader.kernel(one, f"trace.kernels[{i}]") for i, one in _entries(given["kernels"], "trace.kernels"))
    steps = reader.steps(given["steps"], "trace.steps", MOST_DEPTH)
    outputs = tuple(reader.output(one, f"trace.outputs[{i}]") for i, one in _entries(given["outputs"], "trace.outputs"))
    return Trace(arguments, windows, kernels, steps, outputs, programs)


def decode_recorded(message: Mapping[str, Any]) -> tuple[Recorded, Trace]:
    """Return a recorder's answer, and its trace. Raises DecodeError."""
    trace = decode_trace(message.get("trace"))
    recorded = decode(Recorded, {**message, "trace": {}}, "answer", _PLAIN)
    return replace(recorded, trace=message["trace"]), trace


def _window(value: object, where: str) -> Window:
    storage, dtype, offset, shape, strides = _row(value, 5, where)
    window = Window(
        _count(storage, where), _text(dtype, where), _count(offset, where), _sizes(shape, where), _sizes(strides, where)
    )
    if len(window.shape) != len(window.strides):
        raise DecodeError(f"{where} must have as many strides as axes, got {len(window.strides)}")
    return window


def _goes_on_after_launch(steps: Sequence[Step]) -> bool:
    """Return whether torch does something after a launch."""
    return is_out_of_order(
        [isinstance(one, Launch | CuteCall | Choose) for one in steps if not isinstance(one, Free | StreamStep)]
    )


def _short_step(row: list[Any], where: str) -> Free | StreamStep:
    """Return a step that does no work."""
    match row:
        case ["free", storages]:
            return Free(_sizes(storages, where))
        case ["stream", ("use" | "mark" | "wait") as action, stream, event]:
            return StreamStep(action, _place(stream, where), _place(event, where))
    raise DecodeError(f"{where} must be a step, got {str(row[:1])[:80]}")


def _place(value: object, where: str) -> int:
    """Return the number of a stream or an event, or -1."""
    if type(value) is not int or not -1 <= value <= MOST_STEPS:
        raise DecodeError(f"{where} must name a stream or an event, got {str(value)[:80]}")
    return value


def _program(value: object, where: str) -> CuteProgram:
    given = _fields(value, ("name", "nbytes", "data"), where)
    size, data = _count(given["nbytes"], where), given["data"]
    if size > MOST_PROGRAM_BYTES or not isinstance(data, str) or len(data) > _DATA_CHARACTERS:
        raise DecodeError(f"{where} must hold at most {MOST_PROGRAM_BYTES} bytes of text, got {size}")
    return CuteProgram(_text(given["name"], where), size, data)


class _Reader:
    """Decodes values that may name tensors, kernels and programs of a trace."""

    def __init__(self, windows: int, kernels: int, programs: int) -> None:
        self._windows = windows
        self._kernels = kernels
        self._programs = programs
        self._left = MOST_STEPS

    def kernel(self, value: object, where: str) -> KernelText:
        # Few functions have such defaults, or a home.
        whole = {"defaults": {}, "home": "", **value} if isinstance(value, dict) else value
        given = _fields(whole, ("name", "line", "kind", "names", "options", "defaults", "home"), where)
        if given["kind"] not in ("jit", "gluon", "constexpr"):
            raise DecodeError(f"{where}.kind must be jit, gluon or constexpr")
        return KernelText(
            _text(given["name"], where),
            _count(given["line"], where),
            given["kind"],
            self._named(given["names"], f"{where}.names"),
            self._named(given["options"], f"{where}.options"),
            self._named(given["defaults"], f"{where}.defaults"),
            _text(given["home"], where),
        )

    def output(self, value: object, where: str) -> Output:
        window, form = _row(value, 2, where)
        if not isinstance(window, int) or not -1 <= window < self._windows:
            raise DecodeError(f"{where} must name a window")
        return Output(window, decode(Form, form, f"{where}.form", _PLAIN))

    def steps(self, value: object, where: str, depth: int) -> tuple[Step, ...]:
        return tuple(self._step(one, f"{where}[{i}]", depth) for i, one in _entries(value, where))

    def _step(self, value: object, where: str, depth: int) -> Step:
        self._left -= 1
        if self._left < 0 or depth < 0:
            raise DecodeError(f"{where}: a trace must hold at most {MOST_STEPS} steps")
        row = _list(value, where)
        match row:
            case ["operator", name, args, kwargs, results, line]:
                windows = tuple(self._index(one, self._windows, where) for one in _list(results, where))
                by_name = self._named(kwargs, where)
                return Operator(_text(name, where), self._values(args, where), by_name, windows, _count(line, where))
            case ["constant", storage, nbytes, data]:
                size = _count(nbytes, where)
                if size > MOST_CONSTANT_BYTES or not isinstance(data, str) or len(data) > _DATA_CHARACTERS:
                    raise DecodeError(f"{where} must hold at most {MOST_CONSTANT_BYTES} bytes, got {size}")
                return Constant(_count(storage, where), size, data)
            case ["launch", kernel, grid, args, kwargs, options, line, bool(lends)]:
                return Launch(
                    self._index(kernel, self._kernels, where),
                    _sizes(grid, where),
                    self._values(args, where),
                    self._named(kwargs, where),
                    self._named(options, where),
                    _count(line, where),
                    lends,
                )
            case ["cute", program, args, line]:
                place = self._index(program, self._programs, where)
                return CuteCall(place, self._values(args, where), _count(line, where))
            case ["choose", alternatives, line, *rest] if len(rest) in (0, 1, 3):
                found = tuple(self.steps(one, where, depth - 1) for one in _list(alternatives, where))
                if not found:
                    raise DecodeError(f"{where} must hold an alternative")
                if any(_goes_on_after_launch(one) for one in found):
                    # Whether a launch compiles would decide what torch does.
                    raise DecodeError(f"{where} must hold alternatives that end in their launches")
                kept = _count(rest[0], where) if rest else 0
                if kept >= len(found):
                    raise DecodeError(f"{where} must have an alternative of its own, got {kept} of {len(found)} kept")
                renewed = [
                    tuple(self._index(one, self._windows, where) for one in _list(each, where)) for each in rest[1:]
                ]
                return Choose(found, _count(line, where), Renewal(*renewed) if renewed else None, kept)
        return _short_step(row, where)

    def _named(self, value: object, where: str) -> dict[str, Value]:
        if not isinstance(value, dict) or len(value) > _MOST_ENTRIES:
            raise DecodeError(f"{where} must be an object of at most {_MOST_ENTRIES} names")
        return {_text(name, where): self.value(one, f"{where}.{name[:40]}", MOST_DEPTH) for name, one in value.items()}

    def _values(self, value: object, where: str, depth: int = MOST_DEPTH) -> tuple[Value, ...]:
        return tuple(self.value(one, where, depth) for one in _list(value, where))

    def value(self, value: object, where: str, depth: int) -> Value:
        """Return one value, of at most `depth` levels."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, float):
            return _finite(value, where)
        if isinstance(value, int):
            return _whole(value, where)
        if isinstance(value, str):
            return _text(value, where)
        row = _list(value, where)
        read = _KINDS.get(str(row[0]) if row else "")
        if read is None or depth < 0:
            raise DecodeError(f"{where} must be a value of at most {MOST_DEPTH} levels, got {str(row[:1])[:80]}")
        return read(self, row[1:], where, depth - 1)

    def _tensor(self, row: list[Any], where: str, depth: int) -> TensorValue:  # noqa: ARG002
        return TensorValue(self._index(_row(row, 1, where)[0], self._windows, where))

    def _kernel(self, row: list[Any], where: str, depth: int) -> KernelValue:  # noqa: ARG002
        return KernelValue(self._index(_row(row, 1, where)[0], self._kernels, where))

    def _float(self, row: list[Any], where: str, depth: int) -> float:  # noqa: ARG002
        (text,) = _row(row, 1, where)
        if text not in ("nan", "inf", "-inf"):
            raise DecodeError(f"{where} must be nan, inf or -inf")
        return float(text)

    def _dtype(self, row: list[Any], where: str, depth: int) -> DtypeValue:  # noqa: ARG002
        library, name = _row(row, 2, where)
        if library not in ("torch", "triton"):
            raise DecodeError(f"{where} must be a dtype of torch or triton")
        return DtypeValue(library, _text(name, where))

    def _enum(self, row: list[Any], where: str, depth: int) -> EnumValue:  # noqa: ARG002
        kind, name = _row(row, 2, where)
        return EnumValue(_text(kind, where), _text(name, where))

    def _tuple(self, row: list[Any], where: str, depth: int) -> TupleValue:
        return TupleValue(self._values(_row(row, 1, where)[0], where, depth))

    def _listed(self, row: list[Any], where: str, depth: int) -> ListValue:
        return ListValue(self._values(_row(row, 1, where)[0], where, depth))

    def _dict(self, row: list[Any], where: str, depth: int) -> DictValue:
        keys, values = (self._values(one, where, depth) for one in _row(row, 2, where))
        if len(keys) != len(values):
            raise DecodeError(f"{where} must have as many values as keys")
        return DictValue(tuple(zip(keys, values, strict=True)))

    def _record(self, row: list[Any], where: str, depth: int) -> NamedValue:
        kind, name, fields, items = _row(row, 4, where)
        names = tuple(_text(one, where) for one in _list(fields, where))
        values = self._values(items, where, depth)
        if kind not in ("tuple", "record", "class") or len(names) != len(values):
            raise DecodeError(f"{where} must be a tuple, a record or a class with a value for every field")
        if not all(one.isidentifier() for one in names):
            raise DecodeError(f"{where} must have identifiers as fields")
        return NamedValue(kind, _text(name, where), names, values)

    def _constexpr(self, row: list[Any], where: str, depth: int) -> ConstexprValue:
        return ConstexprValue(self.value(_row(row, 1, where)[0], where, depth))

    def _descriptor(self, row: list[Any], where: str, depth: int) -> DescriptorValue:
        base, shape, strides, block, padding, rounds, layout = _row(row, 7, where)
        tensor = TensorValue(self._index(base, self._windows, where))
        sizes, steps, tile, held = (self._values(one, where, depth) for one in (shape, strides, block, layout))
        return DescriptorValue(tensor, sizes, steps, tile, _text(padding, where), bool(rounds), held)

    def _wrapper(self, row: list[Any], where: str, depth: int) -> WrapperValue:  # noqa: ARG002
        base, dtype = _row(row, 2, where)
        return WrapperValue(TensorValue(self._index(base, self._windows, where)), _text(dtype, where))

    def _language(self, row: list[Any], where: str, depth: int) -> LanguageValue:  # noqa: ARG002
        return LanguageValue(_text(_row(row, 1, where)[0], where))

    def _unknown(self, row: list[Any], where: str, depth: int) -> UnknownValue:  # noqa: ARG002
        return UnknownValue(_text(_row(row, 1, where)[0], where))

    def _index(self, value: object, count: int, where: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < count:
            raise DecodeError(f"{where} must name one of {count} things, got {str(value)[:40]}")
        return value


_KINDS: dict[str, Callable[[_Reader, list[Any], str, int], Value]] = {
    "tensor": _Reader._tensor,
    "kernel": _Reader._kernel,
    "float": _Reader._float,
    "dtype": _Reader._dtype,
    "enum": _Reader._enum,
    "tuple": _Reader._tuple,
    "list": _Reader._listed,
    "dict": _Reader._dict,
    "record": _Reader._record,
    "constexpr": _Reader._constexpr,
    "descriptor": _Reader._descriptor,
    "wrapper": _Reader._wrapper,
    "language": _Reader._language,
    "unknown": _Reader._unknown,
}


def _fields(value: object, names: tuple[str, ...], where: str) -> dict[str, Any]:
    if not isinstance(value, dict) or sorted(value) != sorted(names):
        raise DecodeError(f"{where} must have the fields {', '.join(names)}")
    return value


def _list(value: object, where: str, most: int = _MOST_ENTRIES) -> list[Any]:
    if not isinstance(value, list | tuple) or len(value) > most:
        raise DecodeError(f"{where} must be a list of at most {most} entries")
    return list(value)


def _entries(value: object, where: str) -> enumerate[Any]:
    return enumerate(_list(value, where))


def _row(value: object, length: int, where: str) -> list[Any]:
    row = _list(value, where)
    if len(row) != length:
        raise DecodeError(f"{where} must have {length} entries, got {len(row)}")
    return row


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or len(value) > _MOST_TEXT:
        raise DecodeError(f"{where} must be a text of at most {_MOST_TEXT} characters")
    return value


def _finite(value: float, where: str) -> float:
    if not math.isfinite(value):
        raise DecodeError(f"{where} must be a finite number, or written as a text")
    return value


def _whole(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value.bit_length() > _BITS:
        raise DecodeError(f"{where} must be an int of at most {_BITS} bits")
    return value


def _count(value: object, where: str) -> int:
    count = _whole(value, where)
    if count < 0:
        raise DecodeError(f"{where} must be at least 0, got {count}")
    return count


def _sizes(value: object, where: str) -> tuple[int, ...]:
    return tuple(_count(one, where) for one in _list(value, where))
