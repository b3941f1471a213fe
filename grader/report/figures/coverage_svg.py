"""Draw what programs touch as small inline SVG: programs down, the tiles of a tensor across. The page has the colours.

What is read is half as high as what is written, so that the two differ without colour too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from markupsafe import Markup

from grader.record.launches import Coverage, CoveringLaunch
from grader.report import coverage
from grader.report.figures import matrix
from grader.report.figures.matrix import Look, TensorPanel
from grader.report.figures.svg import label, units

_T = TypeVar("_T")
_NOBODY = "none"
# Units of the SVG's own coordinates: small enough that a 360 px screen shows it at nearly full size.
_WIDTH, _HEIGHT = 256, 160
_MOST_WIDE, _MOST_HIGH, _LEAST_HIGH = 16.0, 12.0, 4.0
_TILE_GAP, _ROW_GAP, _STRIP = 1.5, 1.0, 16.0
# Of a unit: two drawings stand side by side on a wide page.
_PIXELS = 1.3
# Of a label's character, at 11 units; and the least height of a row that holds one.
_CHARACTER, _ROW_OF_TEXT = 6.4, 11.0


@dataclass(frozen=True)
class DrawnLaunch:
    """A launch in words and as drawings, one for each tensor.

    faults: sentences on programs that miss an element, meet at one, or write nothing. captions: name and tile of each
    drawn tensor.
    """

    sentence: str
    faults: tuple[str, ...]
    drawings: tuple[tuple[str, str, Markup], ...]


def drawn(shown: Coverage, anchor: str) -> tuple[DrawnLaunch, ...]:
    """Return the launches of a call. anchor: makes the ids of their drawings unique."""
    sentences = coverage.sentences(shown)
    return tuple(
        DrawnLaunch(sentences[place], tuple(coverage.faults(shown, launch)), _drawings(launch, f"{anchor}-{place}"))
        for place, launch in enumerate(shown.launches)
    )


def _drawings(launch: CoveringLaunch, anchor: str) -> tuple[tuple[str, str, Markup], ...]:
    panels = matrix.panels(launch)
    return tuple((one.name, one.each, _svg(one, f"{anchor}-{number}")) for number, one in enumerate(panels))


@dataclass(frozen=True)
class _Places:
    """The places of a panel's cells, in the drawing's units."""

    panel: TensorPanel
    left: float
    high: float

    @property
    def step(self) -> float:
        """Return the width of a tile."""
        tiles = len(self.panel.hollow)
        return min(_MOST_WIDE, (_WIDTH - self._gap * (tiles // self.panel.across - 1)) / tiles)

    @property
    def _gap(self) -> float:
        return _TILE_GAP if self.panel.is_tiled else 0.0

    def x(self, tile: int) -> float:
        """Return the left edge of a tile."""
        return self.left + tile * self.step + tile // self.panel.across * self._gap

    @property
    def right(self) -> float:
        """Return the right edge of the last tile."""
        return self.x(len(self.panel.hollow) - 1) + self.step

    @property
    def below(self) -> float:
        """Return the lower edge of the last program's row."""
        return len(self.panel.rows) * self.high


def _svg(panel: TensorPanel, name: str) -> Markup:
    labels = [row.label for row in panel.rows]
    left = 6 + _CHARACTER * max(map(len, (*labels, _NOBODY)))
    places = _Places(panel, left, min(_MOST_HIGH, max(_LEAST_HIGH, _HEIGHT / len(panel.rows))))
    strip = places.below + _STRIP if any(panel.hollow) else places.below
    width, height = max(places.right + 4, left + 60), strip + 16
    return Markup(
        '<svg class="reach" role="img" aria-labelledby="{name}-t {name}-d" viewBox="0 0 {w} {h}" width="{px}">'
        '<title id="{name}-t">{title}</title><desc id="{name}-d">{words}</desc>{cells}{hollow}{labels}</svg>'
    ).format(
        name=name,
        w=units(width),
        h=units(height),
        px=units(width * _PIXELS),
        title=f"Which program touches which elements of {panel.name}",
        words=panel.words,
        cells=Markup("").join(_row(places, place, row.looks) for place, row in enumerate(panel.rows)),
        hollow=_hollow(places),
        labels=_labels(places, labels, strip),
    )


def _row(places: _Places, place: int, looks: Sequence[Look]) -> Markup:
    top, high = place * places.high, places.high - _ROW_GAP
    parts: list[Markup] = []
    for look, first, last in _runs(looks, places.panel.across):
        x, width = places.x(first), places.x(last) + places.step - places.x(first)
        if look in ("", "read"):
            parts.append(_rectangle("n", x, top, width, high))
        if look in ("write", "both", "clash"):
            parts.append(_rectangle("c" if look == "clash" else "w", x, top, width, high))
        if look in ("read", "both"):
            parts.append(_rectangle("r", x, top + high / 4, width, high / 2))
        if look == "clash":
            cross = "".join(
                f"M{units(places.x(tile))} {units(top)}l{units(places.step)} {units(high)}m0 {units(-high)}"
                f"l{units(-places.step)} {units(high)}"
                for tile in range(first, last + 1)
            )
            parts.append(Markup('<path class="x" d="{}"/>').format(cross))
    return Markup("").join(parts)


def _hollow(places: _Places) -> Markup:
    """Return the row of tiles in which no program writes some element."""
    top, high = places.below + _STRIP - _MOST_HIGH, _MOST_HIGH - 2
    runs = _runs(places.panel.hollow, places.panel.across)
    return Markup("").join(
        _rectangle("h", places.x(first), top, places.x(last) + places.step - places.x(first), high)
        for is_hollow, first, last in runs
        if is_hollow
    )


def _labels(places: _Places, labels: Sequence[str], strip: float) -> Markup:
    """Return the labels of rows, all or the first and the last, and those of the first and the last element."""
    shown = {0, len(labels) - 1} if places.high < _ROW_OF_TEXT else range(len(labels))
    middle = places.high / 2 + 3.5
    texts = [label(places.left - 5, place * places.high + middle, "end", labels[place]) for place in sorted(shown)]
    if any(places.panel.hollow):
        texts.append(label(places.left - 5, strip - 3, "end", _NOBODY))
    texts.append(label(places.left, strip + 12, "start", places.panel.first))
    if places.right - places.left > _CHARACTER * (len(places.panel.first) + len(places.panel.last) + 2):
        texts.append(label(places.right, strip + 12, "end", places.panel.last))
    return Markup("").join(texts)


def _runs(values: Sequence[_T], across: int) -> Iterator[tuple[_T, int, int]]:
    """Yield runs of equal values within one row of tiles: the value, the first and the last tile."""
    keyed = groupby(enumerate(values), key=lambda one: (one[1], one[0] // across))
    for (value, _), run in keyed:
        tiles = [tile for tile, _ in run]
        yield value, tiles[0], tiles[-1]


def _rectangle(kind: str, x: float, y: float, width: float, height: float) -> Markup:
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>').format(
        kind, *map(units, (x, y, width, height))
    )
