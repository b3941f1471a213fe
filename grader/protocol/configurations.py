"""What sets the configurations of an autotuned launch apart, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from grader.cleaning import clean
from grader.protocol.trace import Choose, ConstexprValue, Launch, Step, Trace, Value, choices_in, launches_in


@dataclass(frozen=True)
class Configurations:
    """Those of one autotuned launch. kernel, kernel_line: what is launched, and its first line, decorators included.

    line: of the launch. words: of every configuration. sizes: the product of its constants, of every configuration.
    """

    kernel: str
    kernel_line: int
    line: int
    words: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def likeliest(self) -> list[int]:
        """Return the places of the configurations, largest constants first: those are seldom the slow ones."""
        return sorted(range(len(self.sizes)), key=lambda place: -self.sizes[place])


def configurations_in(trace: Trace) -> tuple[Configurations, ...]:
    """Return what every autotuned launch of a trace chooses from."""
    return tuple(configurations_of(trace, step) for step in choices_in(trace.steps))


def configurations_of(trace: Trace, step: Choose) -> Configurations:
    """Return what one autotuned launch chooses from."""
    launches = [_launch_of(alternative) for alternative in step.alternatives]
    given = [{**launch.kwargs, **launch.options} if launch else {} for launch in launches]
    differing = [name for name in _names(given) if len({repr(one.get(name)) for one in given}) > 1]
    kernel = next((trace.kernels[launch.kernel] for launch in launches if launch), None)
    return Configurations(
        clean(kernel.name, 80) if kernel else "",
        kernel.line if kernel else 0,
        step.line,
        tuple(_words(one, differing) for one in given),
        tuple(prod(_numbers(launch.kwargs, differing)) if launch else 0 for launch in launches),
    )


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
