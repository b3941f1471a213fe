"""What an autotuned launch chose from, in words: the table of its configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grader.protocol.messages import Choice
from grader.protocol.trace import Choose, ConstexprValue, Launch, Step, Trace, Value, launches_in
from grader.record import Configuration, Tuned, clean

# And the chosen one, wherever it stands.
_MOST_ROWS = 64


def tuned(trace: Trace, choices: Sequence[Choice]) -> tuple[Tuned, ...]:
    """Return a table for every choice that fits one of the trace's."""
    steps = [step for step in trace.steps if isinstance(step, Choose)]
    pairs = zip(steps, choices, strict=False)
    return tuple(_table(trace, step, choice) for step, choice in pairs if _belongs(step, choice))


def _belongs(step: Choose, choice: Choice) -> bool:
    count = len(step.alternatives)
    return step.line == choice.line and len(choice.times_us) == count and 0 <= choice.chosen < count


def _table(trace: Trace, step: Choose, choice: Choice) -> Tuned:
    launches = [_launch_of(alternative) for alternative in step.alternatives]
    given = [{**launch.kwargs, **launch.options} if launch else {} for launch in launches]
    differing = [name for name in _names(given) if len({repr(one.get(name)) for one in given}) > 1]
    kernel = next((trace.kernels[launch.kernel].name for launch in launches if launch), "")
    rows = [
        Configuration(_words(one, differing), time_us, chosen=place == choice.chosen)
        for place, (one, time_us) in enumerate(zip(given, choice.times_us, strict=True))
    ]
    shown = [row for place, row in enumerate(rows) if place < _MOST_ROWS or row.chosen]
    return Tuned(clean(kernel, 80), step.line, tuple(shown))


def _launch_of(steps: Sequence[Step]) -> Launch | None:
    """Return the first kernel launch of an alternative."""
    return next((launch for launch in launches_in(steps) if isinstance(launch, Launch)), None)


def _names(given: Sequence[Mapping[str, Value]]) -> list[str]:
    return [*dict.fromkeys(name for one in given for name in one)]


def _words(given: Mapping[str, Value], names: Sequence[str]) -> str:
    said = []
    for name in names:
        value = given.get(name)
        plain = value.value if isinstance(value, ConstexprValue) else value
        if isinstance(plain, bool | int | float | str):
            said.append(f"{name}={plain}")
    return clean(", ".join(said), 200)
