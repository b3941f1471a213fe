"""Draw the cost of every choice, by case, as an inline SVG grid: a darker cell is nearer to the best."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from grader.record.checks import Selection
from grader.report import view
from grader.report.figures.chart import short
from grader.report.figures.drawing import INK, OWN, TEXT, drawn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_CASES = 80
MOST_THINGS = 40
_MOST_WORDS = 60
# A cell's side, and the room for words beside and above the grid, in points.
_CELL = 13.0
_LETTER = 0.55 * (TEXT - 2)
_SEPARATOR = ", "
# A cell at this multiple of the least cost is empty.
_FAR = 2.0


def picture(selection: Selection, name: str) -> Markup:
    """Return one row per case and one column per choice; `name` makes its ids unique. Empty without a case."""
    cases, things = selection.cases[:MOST_CASES], selection.things[:MOST_THINGS]
    if not cases or not things:
        return Markup("")
    right = sum(
        min(_known_ratios(row)) == row[chosen] for row, chosen in zip(selection.ratios, selection.chosen, strict=True)
    )
    words = (
        f"{len(cases)} cases by {len(things)} choices, shaded by cost over the least; "
        f"the best was chosen in {right} of {len(selection.cases)} cases"
    )
    return drawn(lambda figure: _draw(figure, selection, cases, things), name, words)


def _known_ratios(row: tuple[float, ...]) -> list[float]:
    return [ratio for ratio in row if ratio > 0] or [1.0]


def _draw(figure: Figure, selection: Selection, cases: tuple[str, ...], things: tuple[str, ...]) -> None:
    from matplotlib.patches import Rectangle

    case_words, thing_words = ([short(name, _MOST_WORDS) for name in _common_cut(names)] for names in (cases, things))
    left, above = (_LETTER * max(map(len, words)) + 8 for words in (case_words, thing_words))
    width, height = left + _CELL * len(things) + 8, above + _CELL * len(cases) + 8
    figure.set_size_inches(width / 72, height / 72)
    axes = figure.add_axes((left / width, 8 / height, _CELL * len(things) / width, _CELL * len(cases) / height))
    axes.set_xlim(0, len(things))
    axes.set_ylim(len(cases), 0)
    for row in range(len(cases)):
        ratios = selection.ratios[row]
        least = min(_known_ratios(ratios))
        for column in range(len(things)):
            near = max(0.0, 1 - (ratios[column] - least) / (_FAR - 1)) if ratios[column] > 0 else 0.0
            if near > 0.02:
                cell = Rectangle((column + 0.04, row + 0.04), 0.92, 0.92, facecolor=INK, alpha=0.6 * near, linewidth=0)
                axes.add_patch(cell)
            if ratios[column] == least:
                axes.plot(column + 0.5, row + 0.5, marker="x", color=INK, markersize=5)
        if 0 <= selection.chosen[row] < len(things):
            column = selection.chosen[row]
            axes.plot(column + 0.5, row + 0.5, marker="o", color=OWN, markerfacecolor="none", markersize=9)
    axes.set_xticks([column + 0.5 for column in range(len(things))], thing_words, rotation=90, fontsize=TEXT - 2)
    axes.set_yticks([row + 0.5 for row in range(len(cases))], case_words, fontsize=TEXT - 2)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def axes_words(selection: Selection) -> str:
    """Name the grid's axes: "Rows: M. Columns: tile_m, stages."; '' if they have no names."""
    sentences = []
    for side, names in (("Rows", selection.cases[:MOST_CASES]), ("Columns", selection.things[:MOST_THINGS])):
        fields = [field for parts in _telling(names)[:1] for field, _ in parts]
        if fields and all(fields):
            sentences.append(f"{side}: {view.line(_SEPARATOR.join(fields), 200)}.")
    return " ".join(sentences)


def _common_cut(names: tuple[str, ...]) -> list[str]:
    """Return the names without their common fields: "a=1, b=2" and "a=1, b=3" become "2" and "3"."""
    telling = _telling(names)
    return [" ".join(value for _, value in parts) for parts in telling] if telling else list(names)


def _telling(names: tuple[str, ...]) -> list[list[tuple[str, str]]]:
    """Return each name's (field, value) pairs that differ; nothing if the names differ in form."""
    inner = [name.partition("(")[2].removesuffix(")") if "(" in name else name for name in names]
    split = [[part.rpartition("=")[::2] for part in one.split(_SEPARATOR)] for one in inner]
    if len({len(parts) for parts in split}) != 1 or len(names) == 1:
        return []
    telling = [place for place in range(len(split[0])) if len({parts[place] for parts in split}) > 1]
    return [[(parts[place][0], parts[place][1].strip("'")) for place in telling] for parts in split]
