"""Draw a class's figures as inline SVG. The page supplies the colours, and words beside a figure say the same."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup

from grader.class_pages.tally import OUTCOMES, StudentTiming
from grader.report.figures.svg import units

_BAR_WIDTH, _BAR_HEIGHT = 240, 14
_LINE_WIDTH, _LINE_HEIGHT = 240, 16


def outcomes(counts: Mapping[str, int]) -> Markup:
    """Draw one check's outcomes over all students as a bar, in the order of OUTCOMES."""
    total = sum(counts.values()) or 1
    parts, start = [], 0.0
    for place, name in enumerate(OUTCOMES):
        width = _BAR_WIDTH * counts.get(name, 0) / total
        if width:
            parts.append(
                Markup('<g><title>{}: {}</title><rect class="o{}" x="{}" width="{}" height="{}"/></g>').format(
                    name, counts[name], place, units(start), units(_gapped(start, width)), _BAR_HEIGHT
                )
            )
        start += width
    said = ", ".join(f"{counts[name]} {name}" for name in OUTCOMES if counts.get(name))
    head = Markup('<svg class="outcomes" role="img" aria-label="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">')
    return head.format(said, _BAR_WIDTH, _BAR_HEIGHT) + Markup("").join(parts) + Markup("</svg>")


def _gapped(start: float, width: float) -> float:
    """Return a stretch that leaves a gap to the next one. The last stretch fills the bar."""
    return width if start + width > _BAR_WIDTH - 0.5 else max(width - 1, 0.75)


def bar(count: int, most: int, kind: str) -> Markup:
    """Draw a number of students as a bar, the longest for `most`."""
    return Markup(
        '<svg class="bin" aria-hidden="true" viewBox="0 0 {w} {h}" preserveAspectRatio="none">'
        '<rect class="{kind}" width="{width}" height="{h}"/></svg>'
    ).format(w=_BAR_WIDTH, h=_BAR_HEIGHT, kind=kind, width=units(_BAR_WIDTH * count / max(most, 1)))


def interval(timing: StudentTiming, floor: float, full: float, top: float) -> Markup:
    """Draw a ratio with its interval on an axis from 0 to `top`, and the band in which points are earned."""

    def at(value: float) -> str:
        return units(_LINE_WIDTH * min(max(value / top, 0.0), 1.0) if top > 0 else 0.0)

    return Markup(
        '<svg class="interval" aria-hidden="true" viewBox="0 0 {w} {h}" preserveAspectRatio="none">'
        '<path class="track" d="M0 8H{w}"/><path class="band" d="M{floor} 8H{full}"/>'
        '<path class="whisker" d="M{low} 8H{high}"/><path class="mark" d="M{ratio} 2V14"/></svg>'
    ).format(
        w=_LINE_WIDTH,
        h=_LINE_HEIGHT,
        floor=at(floor),
        full=at(full),
        low=at(timing.low),
        high=at(timing.high),
        ratio=at(timing.ratio),
    )
