"""Draw the common parts of a figure: styles of contenders, frames, marks, ticks and the legend."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from grader.phrases import cut
from grader.record.speed import Speed
from grader.report import speed as said
from grader.report import view
from grader.report.figures.drawing import INK, OWN, SERIES

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

WIDTH = 400.0
LABEL = 24
LEGEND_ROW = 18.0
# Beyond these no ratio, rate or intensity is real, and axes would only show powers of ten.
_LEAST, _MOST = 1e-5, 1e7

Dash = tuple[float, tuple[float, ...]] | Literal["solid"]

SOLID: Dash = "solid"
DASHED: Dash = (0, (5, 3))
_DASHES: tuple[Dash, ...] = (
    (0, (7, 1.5)),
    (0, (1.2, 1.4)),
    (0, (5, 1.5, 1.2, 1.5)),
    (0, (3, 1.2)),
    (0, (5, 1.5, 1.2, 1.5, 1.2, 1.5)),
)

# Hollow shapes that differ without their colour; the submission alone is a filled diamond.
_MARKERS = ("o", "s", "^", "v", "X", "P", "<", ">")


@dataclass(frozen=True)
class ContenderStyle:
    """A contender's style in all figures."""

    colour: str
    marker: str
    dash: Dash


def looks(speed: Speed) -> dict[str, ContenderStyle]:
    """Return every contender's style. The band's baseline has the style of the line that ratios refer to."""
    others = [name for name in said.baseline_names(speed) if name != speed.baseline]
    found = {
        name: ContenderStyle(SERIES[i % len(SERIES)], _MARKERS[i % len(_MARKERS)], _DASHES[i % len(_DASHES)])
        for i, name in enumerate(others)
    }
    return {**found, speed.baseline: ContenderStyle(INK, ".", DASHED), said.OWN: ContenderStyle(OWN, "D", SOLID)}


def installed() -> bool:
    """Return whether matplotlib is installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return False
    return True


def plain(value: float) -> float | None:
    """Return the number if an axis can show it, else None."""
    known = said.usable(value)
    return known if known is not None and _LEAST <= known <= _MOST else None


def frame(figure: Figure, height: float, *, left: float, top: float, right: float = 14, bottom: float = 38) -> Axes:
    """Add axes with these margins to a figure of this height, all in points."""
    figure.set_size_inches(WIDTH / 72, height / 72)
    axes = figure.add_axes(
        (left / WIDTH, bottom / height, (WIDTH - left - right) / WIDTH, (height - top - bottom) / height)
    )
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_alpha(0.5)
    axes.set_axisbelow(True)
    return axes


def mark(
    axes: Axes, x: float, y: float, colour: str, marker: str, *, mine: bool, filled: bool, ring: float = 6
) -> None:
    """Draw one mark. `ring`: the size of marks that are not the submission's."""
    axes.plot(
        [x],
        [y],
        linestyle="none",
        marker=marker,
        color=colour,
        markersize=6.5 if mine else ring,
        markerfacecolor=colour if filled else "none",
        markeredgewidth=1.4,
        zorder=4 if mine else 3,
    )


def mark_handle(title: str, colour: str, marker: str, *, filled: bool) -> Line2D:
    """Return a mark for the legend."""
    from matplotlib.lines import Line2D

    return Line2D(
        [],
        [],
        linestyle="none",
        marker=marker,
        color=colour,
        markersize=6.5,
        markerfacecolor=colour if filled else "none",
        markeredgewidth=1.4,
        label=short(title, 30),
    )


def line_handle(title: str, dash: Dash) -> Line2D:
    """Return a reference line for the legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=INK, linewidth=1.2, linestyle=dash, label=short(title, 30))


def legend(figure: Figure, handles: list[Artist], height: float, *, handlelength: float = 1.6) -> None:
    """Draw the legend above everything else, in two columns."""
    # Labels that begin with an underscore are left out by matplotlib when given as they are; as a list they stay.
    drawn = figure.legend(
        handles=handles,
        labels=[str(handle.get_label()) for handle in handles],
        loc="upper left",
        bbox_to_anchor=(0, 1 - 1 / height),
        ncols=2,
        frameon=False,
        borderpad=0,
        borderaxespad=0.1,
        handlelength=handlelength,
        handletextpad=0.5,
        columnspacing=1.4,
        labelspacing=0.45,
    )
    drawn.set_in_layout(False)


def plain_ticks(axes: Axes, limits: tuple[float, float], *, x: bool, most: int = 9) -> None:
    """Set plain numbers as ticks of a logarithmic axis: 1-2-5 if there is room, else powers of ten."""
    decades = range(math.floor(math.log10(limits[0])), math.ceil(math.log10(limits[1])) + 1)

    def ticks(*steps: int) -> list[float]:
        found = [step * 10.0**decade for decade in decades for step in steps]
        return [tick for tick in found if limits[0] <= tick <= limits[1]]

    shown = ticks(1, 2, 5) if len(decades) <= 3 else []
    if not 0 < len(shown) <= most:
        powers = ticks(1)
        shown = powers[:: math.ceil(len(powers) / (most - 1)) or 1]
    fixed_ticks(axes, shown, [f"{tick:g}" for tick in shown], x=x)


def fixed_ticks(axes: Axes, ticks: list[float], labels: list[str], *, x: bool) -> None:
    """Set ticks at these places only."""
    from matplotlib.ticker import FixedLocator, NullLocator

    axis = axes.xaxis if x else axes.yaxis
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_ticklabels(labels)


def short(text: str, most: int = LABEL) -> str:
    """Return text as a figure's label."""
    return cut(view.line(text, 200), most)
