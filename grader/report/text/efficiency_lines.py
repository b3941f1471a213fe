"""Print the roofline section of a profile: counted bytes, predicted times, and the GPU's own counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table

from grader.report.efficiency import EfficiencyView
from grader.report.text.ink import Ink, indent
from grader.report.text.widest import Widest


@dataclass(frozen=True)
class Section:
    """One part's section.

    heads, launches: a table of the GPU's counters, as words. notes: further remarks.
    """

    title: str
    view: EfficiencyView | None = None
    caption: str = ""
    heads: tuple[str, ...] = ()
    launches: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PredictedGpus:
    """The GPUs that times are predicted for: a row for each, and a note on these figures."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


def section(ink: Ink, one: Section) -> RenderableType:
    """Return one part's section."""
    blocks: list[RenderableType] = [ink(one.title, "bold underline")]
    view = one.view
    if view is not None and view.work:
        heads = (
            "moved in the interpreter, bytes",
            "loaded",
            "stored",
            "together",
            "model",
            "all points",
            "none",
            "launches",
        )
        rows = [
            (row.words, row.loaded, row.stored, row.moved, row.model, row.allowed, row.none, row.launches)
            for row in view.work
        ]
        blocks.append(table(ink, heads, rows))
    for head, used, limited in (
        ("different bytes stored", "stored", view.stored if view else ()),
        ("extra memory, bytes", "taken", view.memory if view else ()),
    ):
        if limited:
            cells = [(row.words, row.used, row.allowed, row.none) for row in limited]
            blocks.append(table(ink, (head, used, "allowed", "no points"), cells))
    if view is not None and view.times:
        times = [(row.words, *(f"{time}\n{bound}" for time, bound in row.times)) for row in view.times]
        blocks.append(table(ink, ("predicted", *view.gpus), times))
    if one.launches:
        blocks += [ink(one.caption, "dim"), table(ink, one.heads, one.launches)]
    blocks += [indent(ink(note, "dim"), 2) for note in one.notes]
    return Group(*blocks)


def roofs(ink: Ink, known: PredictedGpus) -> RenderableType:
    """Return the figures that the predictions use."""
    return Group(table(ink, known.heads, known.rows), *(ink(note, "dim") for note in known.notes))


def table(ink: Ink, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> RenderableType:
    """Return the columns that fit, from the left."""
    counts = range(len(heads), 1, -1)
    return Padding(Widest(tuple(_columns(ink, heads, rows, count) for count in counts)), (0, 0, 1, 2), expand=False)


def _columns(ink: Ink, heads: Sequence[str], rows: Sequence[Sequence[str]], count: int) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for place in range(count):
        table.add_column(justify="right" if place else "left", no_wrap=True)
    table.add_row(*(ink(head, "dim") for head in heads[:count]))
    for row in rows:
        table.add_row(*map(ink, row[:count]))
    return table
