"""Describe the configurations of an autotuned launch by their differences, and order them by size. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from grader.protocol.trace import (
    Choose,
    ConstexprValue,
    Launch,
    Step,
    TensorValue,
    Trace,
    Value,
    choices_in,
    launches_in,
)
from grader.text import clean

# Triton specialises on sizes and addresses that 16 divides, and on numbers of more than 31 bits.
_ALIGNED, _WORD = 16, 31
# A number up to here may be a constant of the kernel: a block size.
_MOST_CONSTANT = 256


@dataclass(frozen=True)
class Configurations:
    """The configurations of one autotuned launch.

    kernel, kernel_line: the kernel and its first line, decorators included. line: of the launch. words: a description
    of each configuration. sizes: the product of the constants of each configuration.
    """

    kernel: str
    kernel_line: int
    line: int
    words: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def likeliest(self) -> list[int]:
        """Return the places of the configurations, largest constants first: these are seldom slow."""
        return sorted(range(len(self.sizes)), key=lambda place: -self.sizes[place])


def configurations_in(trace: Trace) -> tuple[Configurations, ...]:
    """Return the configurations of every autotuned launch of a trace."""
    return tuple(configurations_of(trace, step) for step in choices_in(trace.steps))


def configurations_of(trace: Trace, step: Choose) -> Configurations:
    """Return the configurations of one autotuned launch."""
    launches = [_launch_of(alternative) for alternative in step.alternatives]
    given = [{**launch.kwargs, **launch.options} if launch else {} for launch in launches]
    differing = _differing(given)
    kernel = next((trace.kernels[launch.kernel] for launch in launches if launch), None)
    return Configurations(
        clean(kernel.name, 80) if kernel else "",
        kernel.line if kernel else 0,
        step.line,
        tuple(_words(one, differing) for one in given),
        _sizes(step),
    )


def _sizes(step: Choose) -> tuple[int, ...]:
    """Return the product of the constants of every configuration."""
    launches = [_launch_of(alternative) for alternative in step.alternatives]
    differing = _differing([launch.kwargs if launch else {} for launch in launches])
    return tuple(prod(_numbers(launch.kwargs, differing)) if launch else 0 for launch in launches)


def _differing(given: Sequence[Mapping[str, Value]]) -> list[str]:
    return [name for name in _names(given) if len({repr(one.get(name)) for one in given}) > 1]


def lightest(trace: Trace) -> int:
    """Return the place of the configuration with the smallest constants, of the launch that has most of them."""
    most = max(choices_in(trace.steps), key=lambda step: len(step.alternatives), default=None)
    return lightest_first(most)[0] if most else 0


def lightest_first(step: Choose) -> list[int]:
    """Return the places of the configurations, smallest constants first: these compile fastest."""
    sizes = _sizes(step)
    return sorted(range(len(sizes)), key=lambda place: sizes[place])


def likeness(trace: Trace, configuration: int) -> object:
    """Return a key that is probably equal for traces that compile to the same code.

    configuration: of its autotuners.
    """
    launches = [one for one in _launched(trace.steps, configuration) if isinstance(one, Launch)]
    return tuple(
        (
            repr(trace.kernels[launch.kernel]),
            tuple(_kind(trace, value) for value in launch.args),
            tuple((name, _kind(trace, launch.kwargs[name])) for name in sorted(launch.kwargs)),
            tuple((name, repr(launch.options[name])) for name in sorted(launch.options)),
        )
        for launch in launches
    )


def _launched(steps: Sequence[Step], configuration: int) -> Iterator[Step]:
    for step in steps:
        if isinstance(step, Choose):
            yield from _launched(step.alternatives[configuration % len(step.alternatives)], configuration)
        else:
            yield step


def _kind(trace: Trace, value: Value) -> object:
    """Return a compiler's view of an argument: its type and whether 16 divides it, but no address."""
    match value:
        case TensorValue(index):
            return trace.windows[index].dtype, trace.windows[index].offset % _ALIGNED == 0
        case bool():
            return repr(value)
        case int() if value > _MOST_CONSTANT:
            return value % _ALIGNED == 0, value.bit_length() > _WORD
    return repr(value)


def _launch_of(steps: Sequence[Step]) -> Launch | None:
    """Return the first kernel launch of an alternative."""
    return next((launch for launch in launches_in(steps) if isinstance(launch, Launch)), None)


def _names(given: Sequence[Mapping[str, Value]]) -> list[str]:
    return [*dict.fromkeys(name for one in given for name in one)]


def _words(given: Mapping[str, Value], names: Sequence[str]) -> str:
    plain = {name: _plain(given.get(name)) for name in names}
    said = [f"{name}={value}" for name, value in plain.items() if isinstance(value, bool | int | float | str)]
    return clean(", ".join(said), 200).replace("\n", " ")


def _numbers(given: Mapping[str, Value], names: Sequence[str]) -> list[int]:
    plain = (_plain(given[name]) for name in names if name in given)
    return [value for value in plain if type(value) is int and value > 0]


def _plain(value: Value) -> Value:
    return value.value if isinstance(value, ConstexprValue) else value
