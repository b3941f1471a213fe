"""Draw where an output is wrong, as small inline SVG and as rows of characters."""

from __future__ import annotations

import math

from markupsafe import Markup

from grader.phrases import counted
from grader.record.causes import Picture
from grader.report.figures.svg import label, units

SHADES = "░▒▓█"
ASCII_SHADES = ".-+#"
# The value of a cell with wrong elements only; a cell without any holds 0.
ALL_WRONG = 9

# Units of the SVG's own coordinates: small enough that a 360 px screen shows it at nearly full size.
_WIDTH, _HEIGHT = 288, 160
_LEFT, _BELOW = 44, 32
_BARE_LEFT = 4
# Closer lines would hide the cells.
_NEAREST = 4.0


def shrink(cells: tuple[tuple[int, ...], ...], rows: int, columns: int) -> tuple[tuple[tuple[int, ...], ...], int, int]:
    """Merge cells down to a maximum of rows and columns; a merged cell is as bad as its worst.

    Also returns how many cells were merged in each direction.
    """
    height, width = len(cells), max(map(len, cells), default=0)
    down, across = max(1, math.ceil(height / rows)), max(1, math.ceil(width / columns))
    merged = tuple(
        tuple(
            max((value for row in cells[top : top + down] for value in row[left : left + across]), default=0)
            for left in range(0, width, across)
        )
        for top in range(0, height, down)
    )
    return merged, down, across


def shade_rows(picture: Picture, *, rows: int = 4, columns: int = 60, shades: str = SHADES) -> list[str]:
    """Return the picture as lines of four shades, from all right to all wrong.

    A merged cell has the shade of its worst cell.
    """
    cells, _, _ = shrink(picture.cells, rows, columns)
    return ["".join(shades[_shade(value)] for value in row) for row in cells]


def text_lines(picture: Picture, *, rows: int, columns: int, shades: str = SHADES) -> tuple[list[str], str]:
    """Return the picture as lines of shades, and the meaning of a sign in words. Rows that are all alike are one."""
    pictured = shade_rows(picture, rows=rows, columns=columns, shades=shades)
    alike = len(pictured) > 1 and len(set(pictured)) == 1
    size, worst = cell_size(picture, rows=rows, columns=columns), darkest(picture, rows=rows, columns=columns)
    legend = f"one sign = {size}{', all rows alike' if alike else ''}: {shades[0]} all right … {shades[3]} {worst}"
    return pictured[: 1 if alike else None], legend


def _shade(value: int) -> int:
    # Only 0 is the palest and only 9 the darkest, so that a single wrong element still shows.
    return 0 if value <= 0 else 3 if value >= ALL_WRONG else 1 if value <= 4 else 2


def cell_size(picture: Picture, *, rows: int, columns: int) -> str:
    """Return the area of one drawn cell, in words: "4 rows × 64 columns", or "64 elements" of a vector."""
    _, down, across = shrink(picture.cells, rows, columns)
    tall, wide = picture.rows_per_cell * down, picture.columns_per_cell * across
    if len(picture.shape) < 2:
        return counted(tall * wide, "element")
    return f"{counted(tall, 'row')} × {counted(wide, 'column')}"


def darkest(picture: Picture, *, rows: int, columns: int) -> str:
    """Return the meaning of the darkest shade, in words."""
    _, down, across = shrink(picture.cells, rows, columns)
    return "all wrong" if down == across == 1 else "all wrong somewhere"


def draw(picture: Picture, name: str, *, rows: int = 48, columns: int = 96) -> Markup:
    """Return the picture as inline SVG; `name` makes its ids unique. The page supplies colours (.heat, .h1 … .h9)."""
    cells, down, across = shrink(picture.cells, rows, columns)
    height, width = len(cells), len(cells[0]) if cells else 0
    if not width:
        return Markup("")
    step_x, step_y = min(24.0, _WIDTH / width), max(3.0, min(18.0, _HEIGHT / height))
    grid_width, grid_height = step_x * width, step_y * height
    left = _LEFT if height > 1 else _BARE_LEFT
    # Room for the axis title, however few cells there are.
    total_width, total_height = left + max(grid_width, 120) + _BARE_LEFT, grid_height + _BELOW
    return Markup(
        '<svg class="heat" role="img" aria-labelledby="{name}-t {name}-d" viewBox="0 0 {w} {h}" width="{px}">'
        '<title id="{name}-t">Where the output is wrong</title><desc id="{name}-d">{words}</desc>'
        '<rect class="h0" x="{x}" y="0" width="{gw}" height="{gh}"/>{cells}{tiles}{labels}</svg>'
    ).format(
        name=name,
        w=units(total_width),
        h=units(total_height),
        px=units(total_width * 1.5),
        words=_words(picture, cells),
        x=left,
        gw=units(grid_width),
        gh=units(grid_height),
        cells=_rectangles(cells, left, step_x, step_y),
        tiles=_tiles(
            left,
            grid_width,
            grid_height,
            step_x * picture.tile_columns / max(1, picture.columns_per_cell * across),
            step_y * picture.tile_rows / max(1, picture.rows_per_cell * down),
        ),
        labels=_labels(picture, left, grid_width, grid_height, height),
    )


def _rectangles(cells: tuple[tuple[int, ...], ...], left: int, step_x: float, step_y: float) -> Markup:
    parts: list[Markup] = []
    for row, values in enumerate(cells):
        start = 0
        while start < len(values):
            end = start
            while end < len(values) and values[end] == values[start]:
                end += 1
            if values[start] > 0:
                parts.append(
                    Markup('<rect class="h{}" x="{}" y="{}" width="{}" height="{}"/>').format(
                        min(values[start], ALL_WRONG),
                        units(left + start * step_x),
                        units(row * step_y),
                        units((end - start) * step_x),
                        units(step_y),
                    )
                )
            start = end
    return Markup("").join(parts)


def _tiles(left: int, width: float, height: float, every_x: float, every_y: float) -> Markup:
    """Return the lines between tiles, in the drawing's units; none if tiles are unknown or too small."""
    lines = []
    if every_x >= _NEAREST:
        lines += [f"M{units(left + i * every_x)} 0V{units(height)}" for i in range(1, math.ceil(width / every_x))]
    if every_y >= _NEAREST:
        lines += [f"M{left} {units(i * every_y)}h{units(width)}" for i in range(1, math.ceil(height / every_y))]
    if not lines:
        return Markup("")
    return Markup('<path class="tiles" fill="none" stroke="#595f69" stroke-width="1" d="{}"/>').format("".join(lines))


def _labels(picture: Picture, left: int, width: float, height: float, rows: int) -> Markup:
    last_row, last_column = _extent(picture)
    column_name = "column" if len(picture.shape) > 1 else "element"
    texts = [
        label(left, height + 12, "start", "0"),
        label(left + max(width, 120) / 2, height + 27, "middle", column_name),
    ]
    if last_column > 0:
        texts.append(label(left + max(width, 24), height + 12, "end", str(last_column)))
    if rows > 1:
        texts += [label(left - 5, 9, "end", "0"), label(left - 5, height, "end", str(last_row))]
        # The name lies along the axis; it needs some height to do so.
        if height >= 60:
            turned = Markup('<text transform="translate(10 {}) rotate(-90)" text-anchor="middle">row</text>')
            texts.append(turned.format(units(height / 2)))
    return Markup("").join(texts)


def _extent(picture: Picture) -> tuple[int, int]:
    """Return the last row and the last column of the output. All axes but the last count as rows."""
    rows, columns = math.prod(picture.shape[:-1]), picture.shape[-1] if picture.shape else 1
    return rows - 1, columns - 1


def _words(picture: Picture, cells: tuple[tuple[int, ...], ...]) -> str:
    wrong = sum(value > 0 for row in cells for value in row)
    total = sum(map(len, cells))
    shape = " × ".join(map(str, picture.shape)) or "one element"
    drawn = f"drawn as {len(cells)} × {len(cells[0])} cells"
    return f"Output of shape {shape}, {drawn}: {wrong} of {total} hold wrong elements."
