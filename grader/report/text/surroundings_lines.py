"""Print a failed call's inputs, and the elements around the worst one, on a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table

from grader.record.causes import Mismatch
from grader.record.checks import CheckResult
from grader.report import view
from grader.report.text.ink import Ink, indent, labelled
from grader.report.text.widest import Widest

_MOST_INPUTS = 4


def surroundings(ink: Ink, check: CheckResult) -> RenderableType:
    """Return the inputs of the failing call in words, and the elements around the worst one; nothing if unknown."""
    cause = check.cause
    if cause is None:
        return Group()
    lines: list[RenderableType] = []
    if cause.inputs:
        lines.append(labelled(ink, "Inputs: ", "; ".join(view.line(one, 200) for one in cause.inputs)))
    if cause.mismatch is not None and cause.mismatch.around:
        worst = f"{view.line(cause.mismatch.output, 60)}{view.index(cause.mismatch.worst_index)}"
        lines.append(ink(f"Around the worst element, {worst}:", "dim"))
        names = tuple(dict.fromkeys(name for one in cause.mismatch.around for name in one.inputs))
        # A narrow terminal leaves out inputs, the last one first.
        tables = [_table(ink, cause.mismatch, names[:count]) for count in range(min(len(names), _MOST_INPUTS), -1, -1)]
        lines.append(indent(Widest(tuple(tables)), 2))
    return Group(*lines)


def _table(ink: Ink, mismatch: Mismatch, names: tuple[str, ...]) -> Table:
    table = Table.grid(padding=(0, 3, 0, 0))
    for heading in ("", "index", *names, "expected", "got"):
        # A cut number would be another number.
        table.add_column(justify="right" if heading else "left", overflow="fold")
    table.add_row(*(ink(view.line(heading, 40), "dim") for heading in ("", "index", *names, "expected", "got")))
    for one in mismatch.around:
        expected, got = view.pair(one.expected, one.got) if one.is_wrong else map(view.number, (one.expected, one.got))
        mark = ("x" if ink.ascii_only else "✗") if one.is_wrong else ""
        beside = (view.number(one.inputs[name]) if name in one.inputs else "" for name in names)
        table.add_row(*(ink(cell) for cell in (mark, view.index(one.index), *beside, expected, got)))
    return table
