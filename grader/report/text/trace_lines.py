"""Describe a trace in words: allocations, copies and launches of a call, one line a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from grader.phrases import counted
from grader.protocol.trace import (
    Choose,
    Constant,
    ConstexprValue,
    CuteCall,
    DescriptorValue,
    DictValue,
    DtypeValue,
    EnumValue,
    Free,
    KernelValue,
    LanguageValue,
    Launch,
    ListValue,
    NamedValue,
    Operator,
    Step,
    StreamStep,
    TensorValue,
    Trace,
    TupleValue,
    UnknownValue,
    Value,
    Window,
    WrapperValue,
)
from grader.text import clean

_MOST_ALTERNATIVES = 4


def trace_lines(trace: Trace) -> list[str]:
    """Return the lines for one call: its arguments, its steps, its results."""
    return list(_Words(trace).lines())


class _Words:
    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._names = {number: name for name, number in trace.arguments.items()}

    def lines(self) -> Iterator[str]:
        for number, step in enumerate(self._steps(), 1):
            text = list(self._step(step))
            yield f"{number:3}. {text[0]}"
            yield from (f"     {line}" for line in text[1:])
        for output in self._trace.outputs:
            place = self._window(self._trace.windows[output.window]) if output.window >= 0 else output.form.kind
            yield f"     returns {clean(place, 120)}"

    def _steps(self) -> list[Step]:
        """Return the steps, without those that only free memory."""
        return [step for step in self._trace.steps if not isinstance(step, Free)]

    def _step(self, step: Step) -> Iterator[str]:
        match step:
            case Operator():
                yield self._operator(step) + _at(step.line)
            case Constant(storage, nbytes, _):
                yield f"{self._storage(storage)} = {nbytes} bytes that Python made"
            case Launch():
                yield from self._launch(step)
            case CuteCall():
                program = self._trace.programs[step.program]
                yield f"call {clean(program.name, 80)}, {program.nbytes:,} bytes of MLIR{_at(step.line)}"
                yield f"arguments: {self._all(step.args) or 'none'}"
            case StreamStep():
                yield _order(step)
            case Choose(alternatives, line):
                count = len(alternatives)
                yield f"one of {count} configurations{_at(line)}; the first that works is used, without timing"
                for inner in alternatives[:_MOST_ALTERNATIVES]:
                    for one in inner:
                        yield from self._step(one)
                if count > _MOST_ALTERNATIVES:
                    yield f"… and {count - _MOST_ALTERNATIVES} more"

    def _operator(self, step: Operator) -> str:
        made = ", ".join(self._window(self._trace.windows[one]) for one in step.results)
        name = step.name.partition(".")[0]
        from_ = [self._value(one) for one in step.args if isinstance(one, TensorValue | ListValue)]
        return f"{made} = {name}({', '.join(from_)})"

    def _launch(self, step: Launch) -> Iterator[str]:
        kernel = clean(self._trace.kernels[step.kernel].name, 80)
        programs = counted(prod(step.grid), "program")
        yield f"launch {kernel} on a grid of {list(step.grid)}, {programs}{_at(step.line)}"
        given = [self._value(one) for one in step.args]
        given += [f"{clean(name, 40)}={self._value(one)}" for name, one in step.kwargs.items()]
        yield f"arguments: {', '.join(given) or 'none'}"
        if step.options:
            yield f"options: {', '.join(f'{clean(n, 40)}={self._value(v)}' for n, v in step.options.items())}"

    def _window(self, window: Window) -> str:
        strides, shape = list(window.strides), list(window.shape)
        dense = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
        layout = "" if strides == dense else f", strides {strides}"
        start = f", from element {window.offset}" if window.offset and window.storage not in self._names else ""
        return f"{self._storage(window.storage)} {shape} {clean(window.dtype, 20)}{layout}{start}"

    def _storage(self, number: int) -> str:
        return self._names.setdefault(number, f"t{1 + sum(name[:1] == 't' for name in self._names.values())}")

    def _value(self, value: Value) -> str:  # noqa: PLR0911  one return for every kind
        match value:
            case TensorValue(index):
                return self._window(self._trace.windows[index])
            case WrapperValue(base, dtype):
                return f"{self._value(base)} seen as {clean(dtype, 20)}"
            case DescriptorValue(base, _, _, block):
                return f"a descriptor of {self._value(base)} with blocks of [{self._all(block)}]"
            case TupleValue(items) | ListValue(items):
                return f"({self._all(items)})"
            case DictValue(items):
                return f"a dictionary of {len(items)} entries"
            case NamedValue(name=name, fields=fields, items=items):
                pairs = zip(fields, items, strict=True)
                return f"{clean(name, 40)}({', '.join(f'{clean(n, 40)}={self._value(v)}' for n, v in pairs)})"
            case ConstexprValue(inner):
                return self._value(inner)
            case KernelValue(index):
                return clean(self._trace.kernels[index].name, 80)
            case EnumValue("stream"):
                return "the current stream"
            case DtypeValue(name=name) | EnumValue(name=name) | LanguageValue(path=name) | UnknownValue(what=name):
                return clean(name, 80)
            case _:
                return clean(repr(value), 80)

    def _all(self, values: Sequence[Value]) -> str:
        return ", ".join(map(self._value, values))


def _order(step: StreamStep) -> str:
    """Return in words what a stream does."""
    stream = "the host" if step.stream < 0 else f"stream {step.stream}"
    event = "everything" if step.event < 0 else f"event {step.event}"
    match step.action:
        case "use":
            return f"go on in {stream}"
        case "mark":
            return f"record {event} in {stream}"
        case "wait":
            return f"{stream} waits for {event}"


def _at(line: int) -> str:
    return f"  (line {line})" if line else ""
