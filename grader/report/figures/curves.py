"""Draw speed and memory over one axis of a suite, for every contender.

Small multiples: one panel for every combination of the other axes. Values that no axis can hold appear in the tables
only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from grader.phrases import counted
from grader.record.speed import Contender, Speed
from grader.report import speed as said
from grader.report.figures.chart import fixed_ticks, plain, plain_ticks
from grader.report.figures.drawing import INK, TEXT, drawn
from grader.report.figures.panel_grid import PanelLines, Point, axis_words, binary_ticks, draw_panels, linear_ticks
from grader.report.figures.speed_axis import (
    COUNTED,
    Panel,
    SpeedAxis,
    axis_of,
    memory_words,
    peak,
    peaks,
    saving,
    sentence,
    versus_title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PANELS = 6
_UNITS = {"tflops": "TFLOP/s", "tbps": "TB/s", "time": "µs"}


@dataclass(frozen=True)
class Curve:
    """A figure and its caption."""

    drawing: Markup
    caption: str


def speeds(speed: Speed, name: str) -> Curve | None:
    """Draw speed over the axis; `name` makes the ids unique.

    Returns None if no contender has two places in any panel.
    """
    found = axis_of(speed)
    if found is None:
        return None
    quantity = found.curves.quantity

    def value(one: Contender) -> float | None:
        return plain({"tflops": one.tflops, "tbps": one.tbps, "time": one.median_us}[quantity])

    names = [said.OWN, *said.baseline_names(speed)]
    every = [panel for each in found.panels if _is_curve(panel := _lines(each, names, value))]
    if not every:
        return None
    panels = every[:MOST_PANELS]
    caption = {"time": "Time of a call", "tflops": "Speed", "tbps": "Speed"}[quantity]
    caption += f" over {axis_words(found)}; {'lower' if quantity == 'time' else 'higher'} is faster."
    replayed = any(stop.size.method == "graph" for panel in found.panels for stop in panel.stops)
    caption += " Sizes that launches would dominate are CUDA-graph replays." if replayed else ""
    caption += _others(speed, found) + _cut(every)
    unit = _UNITS[quantity]
    drawing = drawn(
        lambda figure: _draw(figure, speed, found, panels, unit, logarithmic=quantity == "time"),
        name,
        _words(speed, f"{caption.split(' over ')[0]} over {axis_words(found)} in {unit}", panels),
    )
    return Curve(drawing, caption)


def memory(speed: Speed, name: str) -> Curve | None:
    """Draw the memory of the submission and of the versus over the axis.

    Returns None if no panel has both at two places.
    """
    found = axis_of(speed)
    if found is None or found.curves.versus not in said.baseline_names(speed):
        return None
    versus = found.curves.versus
    both = [
        panel for panel in found.panels if sum(peaks(stop.with_memory, versus) is not None for stop in panel.stops) > 1
    ]
    every = [_lines(panel, [said.OWN, versus], peak, with_memory=True) for panel in both]
    if not every:
        return None
    alike = len(every) > 1 and all(_alike(every[0], other) for other in every[1:])
    panels = [PanelLines("", every[0].of)] if alike else every[:MOST_PANELS]
    caption = f"The most memory that a call held beyond its inputs, {COUNTED}; lower is better."
    caption += " It is the same in all panels." if alike else _cut(every)
    drawing = drawn(
        lambda figure: _draw_memory(figure, speed, found, panels),
        name,
        _words(speed, f"Memory of a call over {axis_words(found)}, {COUNTED}", panels, memory_words),
    )
    return Curve(drawing, caption)


def _lines(
    panel: Panel, names: list[str], value: Callable[[Contender], float | None], *, with_memory: bool = False
) -> PanelLines:
    lines: dict[str, list[Point]] = {}
    for name in names:
        for stop in panel.stops:
            size = stop.with_memory if with_memory else stop.size
            one = said.contender(size, name)
            known = value(one) if one else None
            if known:
                lines.setdefault(name, []).append(Point(stop.at, known, size.judged))
    return PanelLines(panel.words, lines)


def _is_curve(panel: PanelLines) -> bool:
    return any(len(points) > 1 for points in panel.of.values())


def _alike(one: PanelLines, other: PanelLines) -> bool:
    """Return whether two panels show the same within 1 %."""
    if _places(one) != _places(other):
        return False
    pairs = (pair for name in one.of for pair in zip(one.of[name], other.of[name], strict=True))
    return all(abs(a.value - b.value) <= 0.01 * max(a.value, b.value) for a, b in pairs)


def _places(panel: PanelLines) -> dict[str, list[float]]:
    return {name: [point.at for point in points] for name, points in panel.of.items()}


# -- words -----------------------------------------------------------------------------------------------------------


def _others(speed: Speed, found: SpeedAxis) -> str:
    """Return the versus's name if the tables use another one."""
    title, called = said.title_of(speed, found.curves.versus), versus_title(speed, found.curves)
    ran = found.curves.versus in said.baseline_names(speed)
    return f" {called[:1].upper()}{called[1:]}: {title}." if ran and title != called else ""


def _cut(every: list[PanelLines]) -> str:
    more = len(every) - MOST_PANELS
    return f" The tables hold {counted(more, 'more panel')}." if more > 0 else ""


def _words(speed: Speed, what: str, panels: list[PanelLines], number: Callable[[int], str] | None = None) -> str:
    """Describe a figure in sentences: every panel with the submission's range."""
    reached_words = []
    for panel in panels:
        values = [point.value for point in panel.of.get(said.OWN, ())]
        if values:
            ends = dict.fromkeys(map(number, (int(min(values)), int(max(values))))) if number else {}
            reached = " to ".join(ends) or said.span(values)
            reached_words.append(f"{panel.words}: {reached}" if panel.words else reached)
    text = f"{what}: the submission at {'; '.join(reached_words)}." if reached_words else f"{what}."
    against = sentence(speed)
    return f"{text} {against}{'.' if against else ''}".rstrip() + " The table holds the numbers."


# -- drawing ---------------------------------------------------------------------------------------------------------


def _draw(
    figure: Figure, speed: Speed, found: SpeedAxis, panels: list[PanelLines], unit: str, *, logarithmic: bool
) -> None:
    values = [value for panel in panels for value in panel.values()]
    limits = (min(values) / 1.7, max(values) * 1.7) if logarithmic else (0.0, max(values) * 1.08)
    axes = draw_panels(figure, speed, found, panels, unit, limits)
    for one in axes:
        if logarithmic:
            one.set_yscale("log")
            one.set_ylim(*limits)
            plain_ticks(one, limits, x=False, most=6)
        else:
            ticks = linear_ticks(limits[1])
            fixed_ticks(one, ticks, [f"{tick:g}" for tick in ticks], x=False)


def _draw_memory(figure: Figure, speed: Speed, found: SpeedAxis, panels: list[PanelLines]) -> None:
    values = [value for panel in panels for value in panel.values()]
    limits = (min(values) / 2.5, max(values) * 2.5)
    axes = draw_panels(figure, speed, found, panels, "", limits)
    ticks = binary_ticks(limits)
    for one, panel in zip(axes, panels, strict=True):
        one.set_yscale("log", base=2)
        one.set_ylim(*limits)
        fixed_ticks(one, ticks, [memory_words(int(tick)) for tick in ticks], x=False)
        _annotate_saving(one, found, panel)


def _annotate_saving(axes: Axes, found: SpeedAxis, panel: PanelLines) -> None:
    """Annotate the saving at the last place where both values are known."""
    theirs = {point.at: point.value for point in panel.of[found.curves.versus]}
    last = max((point for point in panel.of[said.OWN] if point.at in theirs), key=lambda point: point.at)
    low, high = sorted((last.value, theirs[last.at]))
    words = saving(int(last.value), int(theirs[last.at]))
    axes.plot([last.at, last.at], [low, high], color=INK, linewidth=1, linestyle=(0, (1, 2)), zorder=1)
    (_, bottom), (_, top) = axes.transData.transform([(last.at, low), (last.at, high)])
    between = top - bottom > 3 * TEXT
    axes.annotate(
        words,
        (last.at, math.sqrt(low * high) if between else high),
        xytext=(-5, 0) if between else (5, TEXT),
        textcoords="offset points",
        ha="right",
        va="center",
        fontsize=TEXT,
        weight="bold",
    )
