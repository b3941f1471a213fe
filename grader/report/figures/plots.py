"""Draw a speed check's figures as inline SVG with matplotlib: ratios over the sizes, and the roofline.

Takes the Speed of a record. Gives Markup, which is empty if there is nothing to draw. Never touches files, the network
or the Speed; matplotlib is loaded only to draw. Numbers that no axis can hold appear in the tables only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from grader.record.speed import Ceilings, Contender, SizeTiming, Speed
from grader.report import speed as said
from grader.report.figures.chart import (
    DASHED,
    LEGEND_ROW,
    frame,
    legend,
    line_handle,
    looks,
    mark,
    mark_handle,
    plain,
    plain_ticks,
    short,
)
from grader.report.figures.drawing import BAND, INK, OWN, TEXT, drawn

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ROWS = 24
_ROW = 28.0
# Characters of a row's label: more leave no room for the marks.
_ROW_LABEL = 32


# -- ratios over the sizes -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _RatioPoint:
    """One ratio in a row of the figure.

    row: the place of its size. low, high: the ends of its interval, or the ratio itself. judged: the size earns points.
    """

    row: int
    ratio: float
    low: float
    high: float
    judged: bool


def ratios(speed: Speed, name: str) -> Markup:
    """Draw the ratios to the baseline: one row per size, and one mark per contender.

    A contender is the submission or another baseline; the baseline itself is the line at 1. The band reaches from the
    ratio that earns no point to the ratio that earns all. Only the first 24 sizes are drawn. `name` makes the ids
    unique. Empty if there is no mark.
    """
    sizes = speed.sizes[:MOST_ROWS]
    series = {one: _readings(sizes, one) for one in (said.OWN, *said.baseline_names(speed)) if one != speed.baseline}
    series = {one: readings for one, readings in series.items() if readings}
    if not series:
        return Markup("")
    return drawn(lambda figure: _draw_ratios(figure, speed, sizes, series), name, _ratio_words(speed, series))


def _readings(sizes: tuple[SizeTiming, ...], name: str) -> list[_RatioPoint]:
    found = []
    for row, size in enumerate(sizes):
        one = said.contender(size, name)
        ratio = plain(one.ratio) if one else None
        if one and ratio:
            low, high = plain(one.ratio_low) or ratio, plain(one.ratio_high) or ratio
            found.append(_RatioPoint(row, ratio, min(low, ratio), max(high, ratio), size.judged))
    return found


def _draw_ratios(
    figure: Figure, speed: Speed, sizes: tuple[SizeTiming, ...], series: dict[str, list[_RatioPoint]]
) -> None:
    labels = [short(words, _ROW_LABEL) for words in said.timed_words(sizes, speed.curves)]
    entries = len(series) + 2 + any(not one.judged for one in series.get(said.OWN, ()))
    legend_height = LEGEND_ROW * math.ceil(entries / 2) + 6
    height = legend_height + _ROW * len(sizes) + 42
    left = 12 + 6.6 * max(map(len, labels))
    axes = frame(figure, height, left=left, top=legend_height)
    low, high = _ratio_scale(axes, speed, series)
    axes.set_ylim(len(sizes) - 0.5, -0.5)
    axes.set_yticks(range(len(sizes)), labels)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", color=INK, alpha=0.12, linewidth=0.8)
    # It may be longer than the axis: there is room below the rows' labels.
    axes.set_xlabel(short(f"ratio to {said.title_of(speed, speed.baseline)}", 36) + " (right is faster)", loc="right")
    handles = _series_marks(axes, speed, series)
    handles += _references(axes, speed, low, high)
    legend(figure, handles, height)


def _ratio_scale(axes: Axes, speed: Speed, series: dict[str, list[_RatioPoint]]) -> tuple[float, float]:
    """Set a scale that holds every mark, 1 and the ends of the band; return its limits.

    Linear from 0 if no value is above 2.5, else logarithmic.
    """
    marks = [end for readings in series.values() for one in readings for end in (one.low, one.high)]
    marks += [value for value in (plain(speed.floor), plain(speed.full), 1.0) if value]
    low, high = min(marks), max(marks)
    if high <= 2.5:
        limits = (0.0, high * 1.06)
        axes.set_xlim(*limits)
        return limits
    limits = (low / 1.2, high * 1.2)
    axes.set_xscale("log")
    axes.set_xlim(*limits)
    plain_ticks(axes, limits, x=True)
    return limits


def _series_marks(axes: Axes, speed: Speed, series: dict[str, list[_RatioPoint]]) -> list[Artist]:
    others = [one for one in series if one != said.OWN]
    # The submission keeps the middle of its row; the others lie around it, so that equal ratios do not hide each other.
    offsets = {one: _dodge(i, len(others)) for i, one in enumerate(others)}
    handles: list[Artist] = []
    for name, readings in series.items():
        mine = name == said.OWN
        look = looks(speed)[name]
        for one in readings:
            y = one.row + (0.0 if mine else offsets[name])
            if one.high > one.low:
                axes.plot([one.low, one.high], [y, y], color=look.colour, linewidth=2.4 if mine else 1.2)
            mark(axes, one.ratio, y, look.colour, look.marker, mine=mine, filled=mine and one.judged)
        title = "submission, 95% interval" if mine else said.title_of(speed, name)
        handles.append(mark_handle(title, look.colour, look.marker, filled=mine))
        if mine and any(not one.judged for one in readings):
            handles.append(mark_handle("shown, not judged", look.colour, look.marker, filled=False))
    return handles


def _dodge(index: int, count: int) -> float:
    """Return the offset of one of the `count` other marks from the middle of its row, in rows.

    The marks alternate between above and below; none is further away than 0.3.
    """
    step = (index // 2 + 1) / ((count + 1) // 2) * 0.3
    return step if index % 2 else -step


def _references(axes: Axes, speed: Speed, low: float, high: float) -> list[Artist]:
    from matplotlib.patches import Patch

    handles: list[Artist] = []
    axes.plot([1, 1], axes.get_ylim(), color=INK, linewidth=1.2, linestyle=DASHED)
    handles.append(line_handle(f"{said.title_of(speed, speed.baseline)} = 1", DASHED))
    floor, full = max(speed.floor, low), min(speed.full, high)
    if math.isfinite(floor) and math.isfinite(full) and floor < full:
        axes.axvspan(floor, full, facecolor=BAND, alpha=0.16, linewidth=0, zorder=0)
        if full == speed.full:
            axes.plot([full, full], axes.get_ylim(), color=BAND, linewidth=1.6)
        words = f"points: 0 at {said.times(speed.floor) if speed.floor else '0'}, full at {said.times(speed.full)}"
        handles.append(Patch(facecolor=BAND, alpha=0.3, linewidth=0, label=words))
    return handles


def _ratio_words(speed: Speed, series: dict[str, list[_RatioPoint]]) -> str:
    title = said.title_of(speed, speed.baseline)
    own = [one.ratio for one in series.get(said.OWN, ())]
    text = f"Ratio to {title} over the sizes"
    if own:
        text += f": the submission reaches {said.times(min(own))} to {said.times(max(own))} at {len(own)} sizes"
    others = [said.title_of(speed, name) for name in series if name != said.OWN]
    text += f"; beside it {', '.join(others)}" if others else ""
    return f"{text}. {said.bar(speed).capitalize()} at each size. The table holds the numbers."


# -- roofline --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Point:
    """One contender at one size. intensity: operations per byte. tflops: TFLOP/s. judged: the size earns points."""

    intensity: float
    tflops: float
    judged: bool


@dataclass(frozen=True)
class _Roof:
    """A compute roof. tflops: its height in TFLOP/s. words: the data types that share it, and the height."""

    tflops: float
    words: str


def roofline(speed: Speed, name: str) -> Markup:
    """Draw the submission and the baseline under the measured roofs, at most 40 sizes of each.

    The x axis is intensity in operations per byte, the y axis is speed in TFLOP/s. `name` makes the ids unique.
    Empty if the memory roof was not measured, or no operations were counted.
    """
    points = {one: _points(speed.sizes, one) for one in (said.OWN, speed.baseline)}
    points = {one: found for one, found in points.items() if found}
    memory = plain(speed.ceilings.copy_tbps) if speed.ceilings else None
    if speed.ceilings is None or memory is None or not points:
        return Markup("")
    roofs = _roofs(speed, speed.ceilings)
    words = _roofline_words(points, memory, roofs)
    ceilings = speed.ceilings
    return drawn(lambda figure: _draw_roofline(figure, speed, ceilings, roofs, points), name, words)


def _points(sizes: tuple[SizeTiming, ...], name: str) -> list[_Point]:
    found = []
    for size in sizes[: said.MOST_SIZES]:
        one = said.contender(size, name)
        tflops = plain(one.tflops) if one else None
        intensity = _intensity(one) if one else None
        if tflops and intensity:
            found.append(_Point(intensity, tflops, size.judged))
    return found


def _intensity(one: Contender) -> float | None:
    rates = plain(one.tflops), plain(one.tbps)
    return plain(rates[0] / rates[1]) if rates[0] and rates[1] else None


def _roofs(speed: Speed, ceilings: Ceilings) -> list[_Roof]:
    """Return the compute roofs of the data types in the sizes, or of all types if the sizes name none.

    Of the four highest roofs, those within 10 % of each other become one, at the height of the highest.
    """
    used = {str(value) for size in speed.sizes for value in size.case.values()}
    known = {name: tflops for name, value in ceilings.tflops.items() if (tflops := plain(value))}
    chosen = {name: tflops for name, tflops in known.items() if name in used} or known
    groups: list[tuple[float, list[str]]] = []
    for name, tflops in sorted(chosen.items(), key=lambda entry: -entry[1])[:4]:
        near = next((names for top, names in groups if tflops > 0.9 * top), None)
        if near is None:
            groups.append((tflops, [name]))
        else:
            near.append(name)
    return [_Roof(tflops, f"{short(', '.join(names))} {said.three_digits(tflops)} TFLOP/s") for tflops, names in groups]


def _draw_roofline(
    figure: Figure, speed: Speed, ceilings: Ceilings, roofs: list[_Roof], points: dict[str, list[_Point]]
) -> None:
    height = 300.0
    axes = frame(figure, height, left=56, top=LEGEND_ROW + 8)
    slope = ceilings.copy_tbps
    every = [point for found in points.values() for point in found]
    ridges = [roof.tflops / slope for roof in roofs]
    x_limits = _padded([point.intensity for point in every] + ridges, 4)
    y_limits = _padded([point.tflops for point in every] + [roof.tflops for roof in roofs], 2.6)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(*x_limits)
    axes.set_ylim(*y_limits)
    plain_ticks(axes, x_limits, x=True)
    plain_ticks(axes, y_limits, x=False)
    axes.grid(color=INK, alpha=0.1, linewidth=0.8)
    axes.set_xlabel("floating-point operations per byte")
    axes.set_ylabel("TFLOP/s")
    centre = math.exp(sum(math.log(point.intensity) for point in every) / len(every))
    _draw_roofs(axes, ceilings, roofs, x_limits, y_limits, centre)
    handles: list[Artist] = []
    for name, found in reversed(points.items()):
        mine = name == said.OWN
        colour, marker = (OWN, "D") if mine else (INK, "o")
        for point in found:
            # The baseline's ring is the larger mark, so that both show where they meet.
            mark(axes, point.intensity, point.tflops, colour, marker, mine=mine, filled=mine and point.judged, ring=9)
        title = "submission" if mine else said.title_of(speed, name)
        handles.insert(0, mark_handle(title, colour, marker, filled=mine))
    legend(figure, handles, height)


def _draw_roofs(
    axes: Axes,
    ceilings: Ceilings,
    roofs: list[_Roof],
    x_limits: tuple[float, float],
    y_limits: tuple[float, float],
    centre: float,
) -> None:
    """Draw the roofs with their names. The memory roof's name avoids the points, which lie around `centre`."""
    slope = ceilings.copy_tbps
    top = max((roof.tflops for roof in roofs), default=y_limits[1])
    start, end = max(x_limits[0], y_limits[0] / slope), min(x_limits[1], top / slope)
    if start < end:
        axes.plot([start, end], [start * slope, end * slope], color=INK, linewidth=1.4)
        words = f"copy {said.three_digits(slope)} TB/s"
        if said.usable(ceilings.read_tbps):
            words += f", read {said.three_digits(ceilings.read_tbps)}"
        low = centre > math.sqrt(start * end)
        anchor, angle = start if low else end, math.atan2(*_rise(axes, start, end, slope))
        # Eight points along the line, and five above it.
        along_line = 8 if low else -8
        axes.annotate(
            words,
            (anchor, anchor * slope),
            xytext=(
                along_line * math.cos(angle) - 5 * math.sin(angle),
                along_line * math.sin(angle) + 5 * math.cos(angle),
            ),
            textcoords="offset points",
            rotation=math.degrees(angle),
            rotation_mode="anchor",
            ha="left" if low else "right",
            fontsize=TEXT - 0.5,
        )
    for roof in roofs:
        axes.plot([max(x_limits[0], roof.tflops / slope), x_limits[1]], [roof.tflops] * 2, color=INK, linewidth=1.4)
        axes.annotate(
            roof.words,
            (x_limits[1], roof.tflops),
            xytext=(-3, 9),
            textcoords="offset points",
            ha="right",
            fontsize=TEXT - 0.5,
        )


def _rise(axes: Axes, start: float, end: float, slope: float) -> tuple[float, float]:
    """Return the rise and the run of the memory roof on the drawing, in points."""
    (x0, y0), (x1, y1) = axes.transData.transform([(start, start * slope), (end, end * slope)])
    return float(y1 - y0), float(x1 - x0)


def _padded(values: list[float], factor: float) -> tuple[float, float]:
    return min(values) / factor, max(values) * factor


def _roofline_words(points: dict[str, list[_Point]], memory: float, roofs: list[_Roof]) -> str:
    text = "Roofline with logarithmic axes"
    if own := points.get(said.OWN):
        rates, intensities = [point.tflops for point in own], [point.intensity for point in own]
        text += f": the submission reaches {said.span(rates)} TFLOP/s"
        text += f" at {said.span(intensities)} floating-point operations per byte"
    text += f", under a memory roof of {said.three_digits(memory)} TB/s"
    text += f" and compute roofs of {', '.join(roof.words for roof in roofs)}" if roofs else ""
    return f"{text}. The table holds the numbers."
