"""Draw a class's figures as inline SVG. The page supplies the colours, and words beside a figure say the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from grader.classes.tally import OUTCOMES, StudentTiming

_BAR_WIDTH, _BAR_HEIGHT = 240, 14
_STEP, _TALL, _ABOVE, _BELOW = 40, 96, 16, 38
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
                    name, counts[name], place, _units(start), _units(_gapped(start, width)), _BAR_HEIGHT
                )
            )
        start += width
    said = ", ".join(f"{counts[name]} {name}" for name in OUTCOMES if counts.get(name))
    head = Markup('<svg class="outcomes" role="img" aria-label="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">')
    return head.format(said, _BAR_WIDTH, _BAR_HEIGHT) + Markup("").join(parts) + Markup("</svg>")


def _gapped(start: float, width: float) -> float:
    """Return a stretch that leaves a gap to the next one. The last stretch fills the bar."""
    return width if start + width > _BAR_WIDTH - 0.5 else max(width - 1, 0.75)


def histogram(bins: Sequence[int], name: str) -> Markup:
    """Draw students by tenths of the points. The last column holds full marks alone."""
    most, width = max([*bins, 1]), _STEP * len(bins)
    parts = []
    for place, count in enumerate(bins):
        tall, left = _TALL * count / most, place * _STEP
        shape = Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}" rx="2"/>').format(
            "full" if place == len(bins) - 1 else "tenth",
            left + 3,
            _units(_ABOVE + _TALL - tall),
            _STEP - 6,
            _units(tall),
        )
        label = "full" if place == len(bins) - 1 else f"{place * 10}–"
        parts += [shape] if count else []
        parts.append(_text(left + _STEP / 2, _ABOVE + _TALL - tall - 4, str(count), "count") if count else Markup(""))
        parts.append(_text(left + _STEP / 2, _ABOVE + _TALL + 15, label, "tick"))
    parts.append(Markup('<path class="axis" d="M0 {y}H{w}"/>').format(y=_ABOVE + _TALL, w=width))
    parts.append(_text(width / 2, _ABOVE + _TALL + 33, "% of the points that could be judged", "tick"))
    words = ", ".join(
        f"{count} with {'full marks' if place == len(bins) - 1 else f'{place * 10} to {place * 10 + 10} %'}"
        for place, count in enumerate(bins)
        if count
    )
    return Markup(
        '<svg class="histogram" role="img" aria-labelledby="{name}-t" viewBox="0 0 {w} {h}">'
        '<title id="{name}-t">Students by points: {words}</title>{parts}</svg>'
    ).format(name=name, w=width, h=_ABOVE + _TALL + _BELOW, words=words or "none", parts=Markup("").join(parts))


def interval(timing: StudentTiming, floor: float, full: float, top: float) -> Markup:
    """Draw a ratio with its interval on an axis from 0 to `top`, and the band in which points are earned."""

    def at(value: float) -> str:
        return _units(_LINE_WIDTH * min(max(value / top, 0.0), 1.0) if top > 0 else 0.0)

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


def _text(x: float, y: float, words: str, kind: str) -> Markup:
    return Markup('<text class="{}" x="{}" y="{}" text-anchor="middle">{}</text>').format(
        kind, _units(x), _units(y), words
    )


def _units(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
