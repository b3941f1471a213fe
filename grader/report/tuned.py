"""Describe the choices of autotuned launches, size by size: tables for the card, sentences for the terminal.

Numbers may come from a file: a time that is not finite, or not above zero, becomes a dash.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grader.record.speed import Configuration, Speed, Tuned
from grader.report import speed as timing
from grader.report import view

# A product of three options has dozens of configurations; few are interesting.
MOST_ROWS = 12
MOST_TABLES = 120
_MOST_LAUNCHES = 4
FAILS = "does not work"
LEFT_OUT = "not tried: not compiled in time"
# The time, in a record, of a configuration that was not tried.
_LEFT_OUT_US = -2.0


@dataclass(frozen=True)
class ConfigurationRow:
    """One configuration: the settings that differ, its time as words, and its time over the fastest."""

    words: str
    time: str
    times_slower: str
    chosen: bool


@dataclass(frozen=True)
class TuningTable:
    """The configurations of one launch at one size, the fastest first. cut: the number of further ones."""

    size: str
    launch: str
    rows: tuple[ConfigurationRow, ...]
    cut: int


@dataclass(frozen=True)
class ChoiceLine:
    """A launch's choice at some sizes, as a sentence; `sizes` is empty if they are all."""

    text: str
    sizes: tuple[str, ...]

    @property
    def label(self) -> str:
        """Return the launch and its sizes, in a few words."""
        return f"Tuned{timing.in_brackets(self.sizes)}"


def tables(speed: Speed) -> tuple[TuningTable, ...]:
    """Return a table for every autotuned launch at every size."""
    return tuple(_table(size, one) for size, one in _launches(speed))[:MOST_TABLES]


def choices(speed: Speed) -> tuple[ChoiceLine, ...]:
    """Return the choices. Sizes with the same choice of a launch share an entry."""
    groups: dict[tuple[str, str, int], list[tuple[str, Tuned]]] = {}
    launches = _launches(speed)
    for size, one in launches:
        if chosen := _chosen(one):
            groups.setdefault((_launch(one), _words(chosen), len(one.configurations)), []).append((size, one))
    several = len({launch for launch, _, _ in groups}) > 1
    sizes = {size for size, _ in launches}
    found = []
    for (launch, words, count), members in groups.items():
        at = tuple(dict.fromkeys(size for size, _ in members))
        alike = [one for _, one in members]
        text = f"{words}: the fastest of {count} configurations{_slowest(alike)}{_broken(alike)}"
        found.append(ChoiceLine(f"{launch}: {text}" if several else text, () if len(at) == len(sizes) else at))
    return tuple(found)


def _launches(speed: Speed) -> list[tuple[str, Tuned]]:
    sizes = timing.shown_sizes(speed)
    words = timing.timed_words(sizes, speed.curves)
    return [
        (of_size, one)
        for size, of_size in zip(sizes, words, strict=True)
        for one in size.tuned[:_MOST_LAUNCHES]
        if len(one.configurations) > 1
    ]


def _table(size: str, one: Tuned) -> TuningTable:
    ordered = sorted(one.configurations, key=_by_time)
    chosen = _chosen(one)
    shown = ordered[:MOST_ROWS]
    if chosen and chosen not in shown:
        shown = [*shown[:-1], chosen]
    fastest = timing.usable(ordered[0].time_us)
    launch = f"{_launch(one)}: {len(ordered)} configurations{_broken([one])}"
    return TuningTable(size, launch, tuple(_row(each, fastest) for each in shown), len(ordered) - len(shown))


def _row(one: Configuration, fastest: float | None) -> ConfigurationRow:
    time = timing.usable(one.time_us)
    slower = timing.times(time / fastest) if time and fastest else ""
    said = LEFT_OUT if one.time_us == _LEFT_OUT_US else FAILS if one.time_us < 0 else timing.duration(one.time_us)
    return ConfigurationRow(_words(one), said, f"{slower}×" if slower and slower != timing.NONE else "", one.chosen)


def _slowest(tuned: Iterable[Tuned]) -> str:
    """Return how much faster the choice is than the slowest configuration."""
    gains = [gain for one in tuned if (gain := _gain(one))]
    return f", {timing.span(gains)}× as fast as the slowest" if gains else ""


def _broken(tuned: Iterable[Tuned]) -> str:
    """Return the numbers of configurations that do not work and that were not tried, as words."""
    times = [[each.time_us for each in one.configurations] for one in tuned]
    failing = _count([sum(time < 0 and time != _LEFT_OUT_US for time in of_one) for of_one in times])
    left_out = _count([of_one.count(_LEFT_OUT_US) for of_one in times])
    fails = f"; {failing} {'does' if failing == '1' else 'do'} not work" if failing else ""
    waits = f"; {left_out} not tried, because compiling takes too long" if left_out else ""
    return f"{fails}{waits}"


def _count(counts: Sequence[int]) -> str:
    """Return numbers as one number or a span; '' if all are 0."""
    low, high = min(counts), max(counts)
    return "" if not high else f"{high}" if low == high else f"{low} to {high}"


def _gain(one: Tuned) -> float | None:
    known = [time for each in one.configurations if (time := timing.usable(each.time_us))]
    chosen = _chosen(one)
    own = timing.usable(chosen.time_us) if chosen else None
    return timing.usable(max(known) / own) if own and len(known) > 1 else None


def _chosen(one: Tuned) -> Configuration | None:
    return next((each for each in one.configurations if each.chosen), None)


def _by_time(one: Configuration) -> tuple[bool, float]:
    time = timing.usable(one.time_us)
    return time is None, time or 0.0


def _launch(one: Tuned) -> str:
    return f"{view.line(one.kernel, 60) or 'a kernel'}, line {one.line}"


def _words(one: Configuration) -> str:
    return view.line(one.words, 200) or "unnamed"
