"""Draw a grid of panels (small multiples): a line for every contender, equal scales, one legend above."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grader.record.speed import Speed
from grader.report import speed as said
from grader.report.figures.chart import (
    LEGEND_ROW,
    WIDTH,
    ContenderStyle,
    fixed_ticks,
    frame,
    legend,
    looks,
    mark_handle,
    short,
)
from grader.report.figures.drawing import INK, TEXT
from grader.report.figures.speed_axis import SpeedAxis, called

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

# In points: between panels, right of them, for a panel's title, below all of them, and what a letter is wide.
_GAP, _RIGHT, _TITLE, _FOOT, _LETTER = 24.0, 18.0, 24.0, 38.0, 6.4
# The margin on both sides of the places, as a share of their range.
_PAD = 0.08
# With more places, marks are small, and only places with words have a tick.
_MANY = 16


@dataclass(frozen=True)
class Point:
    """A place on the axis and a value. judged: whether its size counts."""

    at: float
    value: float
    judged: bool


@dataclass(frozen=True)
class PanelLines:
    """One panel with the line of every contender that has one."""

    words: str
    of: dict[str, list[Point]]

    def values(self) -> list[float]:
        """Return every drawn value."""
        return [point.value for points in self.of.values() for point in points]


@dataclass(frozen=True)
class _Layout:
    """The positions of panels, in points."""

    columns: int
    rows: int
    head: float
    left: float
    tall: float

    @property
    def wide(self) -> float:
        """Return a panel's width."""
        return (WIDTH - self.left - _RIGHT - _GAP * (self.columns - 1)) / self.columns

    @property
    def height(self) -> float:
        """Return the figure's height."""
        return self.head + self.rows * (self.tall + _TITLE) + _FOOT

    def place(self, figure: Figure, number: int) -> Axes:
        """Add the axes of a panel."""
        row, column = divmod(number, self.columns)
        left = self.left + column * (self.wide + _GAP)
        top = self.head + _TITLE + row * (self.tall + _TITLE)
        return frame(
            figure,
            self.height,
            left=left,
            top=top,
            right=WIDTH - left - self.wide,
            bottom=self.height - top - self.tall,
        )


def draw_panels(
    figure: Figure, speed: Speed, found: SpeedAxis, panels: list[PanelLines], unit: str, limits: tuple[float, float]
) -> list[Axes]:
    """Draw the panels with their lines, all on the same scales, and the legend above them."""
    looking = looks(speed)
    names = [name for name in looking if any(name in panel.of for panel in panels)]
    names.sort(key=lambda name: (name != said.OWN, name != speed.baseline))
    handles: list[Artist] = [_sample(called(speed, found.curves, name), looking[name], name) for name in names]
    if any(not point.judged for panel in panels for point in panel.of.get(said.OWN, ())):
        own = looking[said.OWN]
        handles.append(mark_handle("shown, not judged", own.colour, own.marker, filled=False))
    columns = min(2, len(panels))
    head = LEGEND_ROW * math.ceil(len(handles) / 2) + 4
    layout = _Layout(columns, math.ceil(len(panels) / columns), head, 52 if unit else 60, 112 if columns > 1 else 190)
    places = sorted({point.at for panel in panels for points in panel.of.values() for point in points})
    drawn_axes = []
    for number, panel in enumerate(panels):
        axes = layout.place(figure, number)
        axes.set_ylim(*limits)
        axes.grid(color=INK, alpha=0.1, linewidth=0.8)
        axes.set_title(short(panel.words, 26 if columns > 1 else 50), fontsize=TEXT - 0.5, loc="left", pad=5)
        for name in reversed(names):
            _draw_line(axes, panel.of.get(name, []), looking[name], mine=name == said.OWN)
        _place_ticks(axes, found, places, layout.wide, labelled=number + columns >= len(panels))
        axes.tick_params(axis="both", length=0)
        if number % columns:
            axes.tick_params(axis="y", labelleft=False)
        elif unit:
            axes.set_ylabel(unit)
        drawn_axes.append(axes)
    legend(figure, handles, layout.height, handlelength=2.6)
    return drawn_axes


def _draw_line(axes: Axes, points: list[Point], look: ContenderStyle, *, mine: bool) -> None:
    front = 4 if mine else 3
    width = 2.2 if mine else 1.3
    axes.plot(
        [point.at for point in points],
        [point.value for point in points],
        color=look.colour,
        linestyle=look.dash,
        linewidth=width,
        zorder=front,
    )
    for judged in (True, False):
        some = [point for point in points if point.judged == judged]
        if some:
            axes.plot(
                [point.at for point in some],
                [point.value for point in some],
                linestyle="none",
                marker=look.marker,
                color=look.colour,
                markersize=_mark_size(look, mine=mine) * (1 if len(points) <= _MANY else 0.6),
                markerfacecolor=look.colour if _filled(look, mine=mine) and (judged or not mine) else "none",
                markeredgewidth=1.2,
                zorder=front,
            )


def _filled(look: ContenderStyle, *, mine: bool) -> bool:
    return mine or look.marker == "."


def _mark_size(look: ContenderStyle, *, mine: bool) -> float:
    return 6.0 if mine else 7.0 if look.marker == "." else 5.0


def _sample(title: str, look: ContenderStyle, name: str) -> Line2D:
    """Return a line with its mark for the legend."""
    from matplotlib.lines import Line2D

    mine = name == said.OWN
    return Line2D(
        [],
        [],
        linestyle=look.dash,
        linewidth=2.2 if mine else 1.3,
        marker=look.marker,
        color=look.colour,
        markersize=_mark_size(look, mine=mine),
        markerfacecolor=look.colour if _filled(look, mine=mine) else "none",
        markeredgewidth=1.2,
        label=short(title, 26),
    )


def _place_ticks(axes: Axes, found: SpeedAxis, places: list[float], wide: float, *, labelled: bool) -> None:
    """Place a tick at every timed place, and label as many as fit, starting from the last."""
    low, high = places[0], places[-1]
    if found.scaled:
        axes.set_xscale("log", base=2)
        pad = (high / low) ** _PAD
        axes.set_xlim(low / pad, high * pad)
    else:
        pad = _PAD * (high - low)
        axes.set_xlim(low - pad, high + pad)

    def share(place: float) -> float:
        """Return a place's position on the axis, 0 … 1 between the ends."""
        return math.log(place / low) / math.log(high / low) if found.scaled else (place - low) / (high - low)

    axes.tick_params(axis="x", labelbottom=labelled)
    shown: dict[float, str] = {}
    free = math.inf
    for place in reversed(places):
        label = short(found.marks[place], _room(wide, len(places)))
        at, half = share(place) * wide / (1 + 2 * _PAD), len(label) * _LETTER / 2
        fits = at + half + _LETTER <= free
        if fits or len(places) <= _MANY:
            shown[place] = label if fits else ""
        free = at - half if fits else free
    ticks = sorted(shown)
    fixed_ticks(axes, ticks, [shown[place] for place in ticks], x=True)
    if labelled:
        axes.set_xlabel(axis_words(found), labelpad=2)


def axis_words(found: SpeedAxis) -> str:
    """Return the axis's name."""
    return short(found.curves.over) or said.NONE


def _room(wide: float, places: int) -> int:
    """Return how many letters a tick's label may have. Fewer than six would say nothing."""
    return max(6, int(wide / max(2, places) / _LETTER))


def linear_ticks(top: float) -> list[float]:
    """Return about four round numbers from zero to `top`."""
    raw = top / 4
    decade = 10.0 ** math.floor(math.log10(raw))
    step = next(step * decade for step in (1, 2, 2.5, 5, 10) if step * decade >= raw)
    return [i * step for i in range(math.floor(top / step) + 1)]


def binary_ticks(limits: tuple[float, float]) -> list[float]:
    """Return at most six powers of two."""
    first, last = max(0, math.ceil(math.log2(limits[0]))), math.floor(math.log2(limits[1]))
    ticks: list[float] = []
    for stride in (1, 2, 5, 10, 20):
        ticks = [2.0**power for power in range(-(-first // stride) * stride, last + 1, stride)]
        if len(ticks) <= 6:
            break
    return ticks
