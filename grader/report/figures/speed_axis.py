"""Arrange a speed check's sizes along one axis of its suite: their places, their panels, and a caption.

Values may come from a file. Values that a logarithmic scale cannot hold are placed side by side, in their order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from grader.exercise.curves import Curves
from grader.record.speed import Contender, SizeTiming, Speed
from grader.report import speed as said
from grader.report import view

# No device holds a PiB, and no length lies beyond these.
_MOST_BYTES = 1 << 50
_LEAST_VALUE, _MOST_VALUE = 1e-9, 1 << 60
_MOST_APART = 6
COUNTED = "as counted during timing"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

Value = int | float | bool | str


@dataclass(frozen=True)
class Stop:
    """A size at a place on the axis.

    with_memory: the size whose calls' memory is known; a replayed graph allocates none.
    """

    at: float
    size: SizeTiming
    with_memory: SizeTiming


@dataclass(frozen=True)
class Panel:
    """The sizes of one combination of the other axes, in the order of the axis, one per place."""

    words: str
    stops: tuple[Stop, ...]


@dataclass(frozen=True)
class SpeedAxis:
    """All panels, in the order of the suite.

    marks: the places with their words. scaled: whether a place is its value, for a logarithmic scale, or only its rank.
    """

    curves: Curves
    panels: tuple[Panel, ...]
    marks: dict[float, str]
    scaled: bool


def axis_of(speed: Speed) -> SpeedAxis | None:
    """Return the sizes along the axis that the band draws over, or None without such an axis."""
    curves = speed.curves
    if curves is None:
        return None
    values = [(size, value) for size in said.shown_sizes(speed) if (value := _value(size, curves.over)) is not None]
    scaled = all(_is_length(value) for _, value in values)
    places = _places([value for _, value in values], scaled=scaled)
    apart = curves.apart[:_MOST_APART]
    groups: dict[tuple[str, ...], dict[float, list[SizeTiming]]] = {}
    for size, value in values:
        group = groups.setdefault(tuple(repr(size.case.get(name)) for name in apart), {})
        group.setdefault(places[repr(value)], []).append(size)
    panels = tuple(_panel(group, apart) for group in groups.values())
    marks = {places[repr(value)]: said.value_words(curves.over, value) for _, value in values}
    return SpeedAxis(curves, panels, dict(sorted(marks.items())), scaled) if panels else None


def _value(size: SizeTiming, axis: str) -> Value | None:
    value = size.case.get(axis)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _is_length(value: Value) -> bool:
    return not isinstance(value, bool | str) and _LEAST_VALUE <= value <= _MOST_VALUE


def _places(values: list[Value], *, scaled: bool) -> dict[str, float]:
    if scaled:
        return {repr(value): float(value) for value in values}
    numbers = [value for value in values if not isinstance(value, str)]
    ordered: list[Value] = sorted(numbers) if len(numbers) == len(values) else values
    return {key: float(rank) for rank, key in enumerate(dict.fromkeys(map(repr, ordered)))}


def _panel(group: dict[float, list[SizeTiming]], apart: tuple[str, ...]) -> Panel:
    stops = tuple(
        Stop(at, max(sizes, key=_weight), max(sizes, key=lambda size: (size.method == "stream", _weight(size))))
        for at, sizes in sorted(group.items())
    )
    return Panel(said.case_words(stops[0].size, apart), stops)


def _weight(size: SizeTiming) -> tuple[bool, bool, float]:
    """Return a sort key for sizes at one place.

    Judged sizes rank highest, then those timed as a graph, which leaves out launch overhead, then larger ones.
    """
    return size.judged, size.method == "graph", said.usable(size.floor_us) or 0.0


# -- against the versus ----------------------------------------------------------------------------------------------


def versus_title(speed: Speed, curves: Curves) -> str:
    """Return the name of the contender that the submission is compared with."""
    return view.line(curves.versus_title, 60) or said.title_of(speed, curves.versus)


def called(speed: Speed, curves: Curves, name: str) -> str:
    """Return a contender's name beside the curves."""
    if name == said.OWN:
        return said.OWN
    return versus_title(speed, curves) if name == curves.versus else said.title_of(speed, name)


def peak(one: Contender | None) -> int | None:
    """Return the memory that a call took, or None if it is unknown."""
    return one.peak_bytes if one and 0 < one.peak_bytes <= _MOST_BYTES else None


def peaks(size: SizeTiming, versus: str) -> tuple[int, int] | None:
    """Return the memory of the submission and of the versus."""
    mine, theirs = peak(said.own(size)), peak(said.contender(size, versus))
    return (mine, theirs) if mine and theirs and versus != said.OWN else None


@dataclass(frozen=True)
class CurveCaption:
    """The sentence above the curves. memory: whether it speaks of memory; then the card adds COUNTED."""

    text: str
    memory: bool


def caption_of(speed: Speed) -> CurveCaption | None:
    """Return how much faster and smaller the submission is than the versus, or None if no size has both.

    It looks at the largest value where both ran: "At Skv=16384: 12.1 to 14.0× the speed of standard attention, 0.13 GiB
    of memory instead of 25.8 GiB (1/198)".
    """
    found = axis_of(speed)
    if found is None or not found.curves.versus:
        return None
    versus = found.curves.versus
    for at in reversed(found.marks):
        stops = [stop for panel in found.panels for stop in panel.stops if stop.at == at]
        faster = [times for stop in stops if (times := _speed_up(stop.size, versus))]
        if faster:
            where = said.case_words(stops[0].size, [found.curves.over])
            text = f"At {where}: {said.span(faster)}× the speed of {versus_title(speed, found.curves)}"
            taken = [both for stop in stops if (both := peaks(stop.with_memory, versus))]
            return CurveCaption(f"{text}, {_memory_words(taken)}" if taken else text, bool(taken))
    return None


def sentence(speed: Speed) -> str:
    """Return the caption as text alone, or '' without one."""
    found = caption_of(speed)
    return found.text if found else ""


def _speed_up(size: SizeTiming, versus: str) -> float | None:
    mine, theirs = said.own(size), said.contender(size, versus)
    if mine is None or theirs is None or mine is theirs:
        return None
    own, other = said.usable(mine.median_us), said.usable(theirs.median_us)
    return said.usable(other / own) if own and other else None


def _memory_words(taken: list[tuple[int, int]]) -> str:
    mine, theirs = [own for own, _ in taken], [other for _, other in taken]
    saved = sorted(taken, key=lambda both: both[1] / both[0])
    factors = list(dict.fromkeys(saving(*both) for both in (saved[0], saved[-1])))
    unit = _unit(max(*mine, *theirs))
    # 0.13 GiB beside 25.8 GiB is plain; 0.0635 GiB is not.
    small = unit if min(mine) * 10 >= 1 << 10 * unit else _unit(max(mine))
    return f"{_sizes(mine, small)} of memory instead of {_sizes(theirs, unit)} ({' to '.join(factors)})"


def saving(own: int, other: int) -> str:
    """Return the submission's share of the versus's memory: "1/198", or "1.5×" if it takes more."""
    factor = other / own
    if 0.995 <= factor < 1.005:
        return "as much"
    return f"1/{_factor(factor)}" if factor > 1 else f"{_factor(1 / factor)}×"


def _factor(value: float) -> str:
    if value >= 9.95:
        return f"{value:.0f}"
    return f"{value:.2g}" if value >= 1.05 else f"{value:.2f}"


def memory_words(size: int) -> str:
    """Return bytes in the unit that suits them."""
    return _sizes([size], _unit(size))


def _unit(size: int) -> int:
    return min(max(size.bit_length() - 1, 0) // 10, len(_UNITS) - 1)


def _sizes(values: Iterable[int], unit: int) -> str:
    ends = sorted(values)
    said_once = dict.fromkeys(_three_digits(end / (1 << 10 * unit)) for end in (ends[0], ends[-1]))
    return f"{' to '.join(said_once)} {_UNITS[unit]}"


def _three_digits(value: float) -> str:
    # Never with an exponent: 1023 GiB is not 1.02e+03 of them.
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
