"""Print compiled kernels on a terminal: a few lines under a part, or a table with everything."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grader.phrases import counted
from grader.record.checks import PartInfo
from grader.report import kernels
from grader.report.text.ink import Ink, indent
from grader.report.text.widest import Widest

_MOST_NOTES = 6
_MOST_ROWS = 4


def few(ink: Ink, part: PartInfo, target: str, *, findings_only: bool) -> RenderableType:
    """Return the findings and, unless only those are asked for, a line for each kernel on one GPU."""
    lines: list[Text] = []
    rows = [(kernel, row) for kernel in kernels.kernels(part) for row in kernel.rows if row.target == target]
    if not findings_only:
        lines += [
            ink(f"{target} {kernel.title}{_aside(row.configuration)}: {kernels.sentence(row)}", "dim")
            for kernel, row in rows[:_MOST_ROWS]
        ]
        lines += _cut(ink, len(rows) - _MOST_ROWS, "kernel")
        lines += [ink(f"{target}: no kernel was compiled for this GPU", "dim")] if _lacks(part, target) else []
    lines += note_lines(ink, part, _MOST_NOTES)
    if not findings_only:
        lines += [ink(f"{targets}: {why}", "dim") for targets, why in kernels.missing(part)]
    return Group(*(indent(line, 2) for line in lines))


def _lacks(part: PartInfo, target: str) -> bool:
    """Return whether the record holds kernels for other GPUs only, without a reason."""
    there = {*(one.target for one in part.kernels), *part.uncompiled}
    return bool(target and part.kernels) and target not in there


def note_lines(ink: Ink, part: PartInfo, most: int) -> list[Text]:
    """Return the findings, one line each."""
    found = kernels.kernel_notes(part)
    lines = [ink.look(one.look)[0].append_text(ink(f" {one.targets} {one.kernel}: {one.text}")) for one in found[:most]]
    return [*lines, *_cut(ink, len(found) - most, "finding")]


def _cut(ink: Ink, more: int, noun: str) -> list[Text]:
    """Return a line that counts what only the scorecard shows; none if that is nothing."""
    said = counted(more, f"more {noun} is", f"more {noun}s are")
    return [ink(f"… {said} in the scorecard …", "dim")] if more > 0 else []


def everything(ink: Ink, part: PartInfo) -> RenderableType:
    """Return every kernel, every configuration and every GPU."""
    blocks: list[RenderableType] = []
    for kernel in kernels.kernels(part):
        blocks += [ink(kernel.title, "bold"), ink(f"{kernel.common}; launched for {kernel.case}", "dim")]
        blocks += [Padding(_table(ink, kernel), (0, 0, 1, 2), expand=False)]
    findings = note_lines(ink, part, 1000)
    blocks += [indent(line, 2) for line in findings]
    blocks += [ink(f"{targets}: {why}", "dim") for targets, why in kernels.missing(part)]
    return Group(*blocks)


_COLUMNS = {
    "configuration": "configuration",
    "registers": "registers",
    "spills": "spilled",
    "shared": "shared",
    "occupancy": "occupancy",
    "limited_by": "limited by",
    "tensor_cores": "tensor cores",
    "copies": "async copies",
    "loads": "loads",
    "stores": "stores",
}
_NUMBERS = frozenset({"registers", "spills", "shared", "occupancy"})
# A narrow terminal drops columns; the JSON document has all.
_LEFT_OUT: tuple[tuple[str, ...], ...] = (
    (),
    ("stores",),
    ("stores", "limited_by"),
    ("stores", "limited_by", "loads"),
    ("stores", "limited_by", "loads", "copies"),
)


def _table(ink: Ink, kernel: kernels.KernelView) -> Widest:
    """Return one row per GPU and configuration, without empty columns."""
    silent = ("", kernels.NONE)
    telling = [name for name in _COLUMNS if any(getattr(row, name) not in silent for row in kernel.rows)]
    return Widest(
        tuple(_rows(ink, kernel, [name for name in telling if name not in left_out]) for left_out in _LEFT_OUT)
    )


def _rows(ink: Ink, kernel: kernels.KernelView, columns: list[str]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    for name in columns:
        table.add_column(justify="right" if name in _NUMBERS else "left", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_row(ink("GPU", "dim"), *(ink(_COLUMNS[name], "dim") for name in columns))
    for row in kernel.rows:
        cells = (str(getattr(row, name)) for name in columns)
        table.add_row(ink(row.target), *map(ink, cells), ink("" if row.compiled else "does not compile"))
    return table


def _aside(configuration: str) -> str:
    return f" ({configuration})" if configuration else ""
