"""Draw a ratio within its band as small inline SVG: where points begin, where they are full, and the interval."""

from __future__ import annotations

import math

from markupsafe import Markup

from grader.record.speed import Speed
from grader.report.speed import usable

_WIDTH, _HEIGHT = 150.0, 20.0
_MIDDLE = _HEIGHT / 2


def draw(speed: Speed) -> Markup:
    """Return the gauge; the words beside it say the same. Empty without a ratio or a band."""
    ratio, full = usable(speed.ratio), usable(speed.full)
    if ratio is None or full is None or not math.isfinite(speed.floor):
        return Markup("")
    low, high = usable(speed.ratio_low) or ratio, usable(speed.ratio_high) or ratio
    top = 1.12 * max(full, ratio, min(high, 4 * max(full, ratio)))
    floor = min(max(speed.floor, 0.0), full)

    def at(value: float) -> str:
        return f"{_WIDTH * min(max(value / top, 0.0), 1.0):.1f}"

    return Markup(
        '<svg class="gauge" aria-hidden="true" viewBox="0 0 {w} {h}" width="{w}">'
        '<path class="track" d="M0 {y}H{w}"/><path class="band" d="M{floor} {y}H{full}"/>'
        '<path class="full" d="M{full} 2V18"/><path class="whisker" d="M{low} {y}H{high}"/>'
        '<path class="mark" transform="translate({ratio} {y})" d="M-5 0L0 -5L5 0L0 5Z"/></svg>'
    ).format(
        w=f"{_WIDTH:g}",
        h=f"{_HEIGHT:g}",
        y=f"{_MIDDLE:g}",
        floor=at(floor),
        full=at(full),
        low=at(min(low, ratio)),
        high=at(max(high, ratio)),
        ratio=at(ratio),
    )
