"""Describe the configurations of an autotuned launch in words, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from grader.protocol.answers import TunedChoice
from grader.protocol.configurations import configurations_of
from grader.protocol.trace import Choose, Trace
from grader.record.speed import Configuration, Tuned

# The most rows of a table; the chosen configuration is always shown too.
_MOST_ROWS = 64


def tuned_tables(trace: Trace, choices: Sequence[TunedChoice]) -> tuple[Tuned, ...]:
    """Return a table for every choice that matches one of the trace's."""
    steps = [step for step in trace.steps if isinstance(step, Choose)]
    pairs = zip(steps, choices, strict=False)
    return tuple(_table(trace, step, choice) for step, choice in pairs if _matches(step, choice))


def _matches(step: Choose, choice: TunedChoice) -> bool:
    count = len(step.alternatives)
    return step.line == choice.line and len(choice.times_us) == count and 0 <= choice.chosen < count


def _table(trace: Trace, step: Choose, choice: TunedChoice) -> Tuned:
    configurations = configurations_of(trace, step)
    rows = [
        Configuration(words, time_us, chosen=place == choice.chosen)
        for place, (words, time_us) in enumerate(zip(configurations.words, choice.times_us, strict=True))
    ]
    shown = [row for place, row in enumerate(rows) if place < _MOST_ROWS or row.chosen]
    return Tuned(configurations.kernel, step.line, tuple(shown))
