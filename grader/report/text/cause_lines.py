"""Print one cause on a terminal: its title, the smallest failing case, and the place of the errors."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from grader.phrases import counted
from grader.record.causes import Mismatch
from grader.record.checks import CheckResult
from grader.record.record import Record
from grader.report import view
from grader.report.figures.picture import ASCII_SHADES, SHADES, text_lines
from grader.report.text.ink import CommandLine, Ink, indent, labelled, quoted
from grader.report.text.widest import Widest

_DIFFERENCES = 3
_PICTURE = (4, 60)
_TRACEBACK_LINES = 6


def card(ink: Ink, record: Record, group: list[CheckResult]) -> RenderableType:
    """Return one cause: its title, the smallest failing case, the place of the errors, and the replay command."""
    check = group[0]
    cause, example = check.cause, check.counterexample
    symbol, _ = ink.status(check)
    # A file that does not load says nothing of one check.
    names = [] if check.status == "invalid_submission" and cause is not None else [view.line(check.title, 200)]
    lines: list[RenderableType] = []
    if cause is None:
        lines.append(ink(view.why(check)))
    else:
        names.append(view.line(cause.title, 200))
        shown = f" ({view.line(cause.case, 160)})" if cause.case else ""
        lines.append(ink(f"{view.line(cause.rationale)}{shown}"))
        if (cause.expected or cause.actual) and cause.mismatch is None:
            lines.append(ink(f"Expected {view.line(cause.expected, 160)}, got {view.line(cause.actual, 160)}"))
    if example is not None:
        passes = f"; passes for {view.line(example.passes, 160)}" if example.passes else ""
        lines.append(labelled(ink, "Smallest failing case: ", f"{view.line(example.words, 200)}{passes}"))
    if cause is not None and cause.mismatch is not None:
        lines += _mismatch(ink, cause.mismatch)
    if cause is not None and cause.traceback:
        lines += _last_lines(ink, cause.traceback, _TRACEBACK_LINES)
    if cause is not None and cause.help:
        lines.append(labelled(ink, "Help: ", view.line(cause.help)))
    if cause is not None:
        lines += [labelled(ink, label, text) for label, text in view.suspected(cause)]
    if len(group) > 1 and check.status != "invalid_submission":
        lines.append(labelled(ink, "Alike: ", "; ".join(_in_passing(one, alone=len(group) == 2) for one in group[1:])))
    title = symbol.append_text(ink(f" {' — '.join(names)}", "bold"))
    replays = [view.replay_command(example, record)] if example is not None and example.replay else []
    commands = (CommandLine(ink, "Replay:", one, column=4) for one in replays)
    return Group(Text(), indent(title, 2), *(indent(entry, 4) for entry in lines), *commands)


def _in_passing(check: CheckResult, *, alone: bool) -> str:
    """Return the title of a check that failed for the same cause, and its smallest case if no other has one."""
    words = f" ({view.line(check.counterexample.words, 120)})" if check.counterexample and alone else ""
    return f"{view.line(check.title, 120)}{words}"


def _mismatch(ink: Ink, mismatch: Mismatch) -> list[RenderableType]:
    lines: list[RenderableType] = [ink(view.how_wrong(mismatch))]
    if mismatch.first:
        # If nothing fits, numbers are folded: a cut number would be another number.
        tables = _differences(ink, mismatch, 4), _differences(ink, mismatch, 3), _said_differences(ink, mismatch)
        lines.append(indent(Widest(tables), 2))
    if mismatch.picture is not None:
        rows, columns = _PICTURE
        shades = ASCII_SHADES if ink.ascii_only else SHADES
        pictured, legend = text_lines(mismatch.picture, rows=rows, columns=columns, shades=shades)
        lines += [indent(Text(row), 2) for row in pictured]
        lines.append(indent(ink(legend, "dim"), 2))
    return lines


def _differences(ink: Ink, mismatch: Mismatch, columns: int) -> Table:
    """Return the first differences as a table. A narrow terminal gets no column "allowed"."""
    table = Table.grid(padding=(0, 3, 0, 0))
    for _ in range(columns):
        table.add_column(justify="right", no_wrap=True)
    table.add_row(*(ink(name, "dim") for name in ("index", "expected", "got", "allowed")[:columns]))
    for difference in mismatch.first[:_DIFFERENCES]:
        expected, got = view.pair(difference.expected, difference.got)
        cells = view.index(difference.index), expected, got, view.number(difference.allowed, 3)
        table.add_row(*map(ink, cells[:columns]))
    return table


def _said_differences(ink: Ink, mismatch: Mismatch) -> Table:
    """Return the first differences as sentences, which wrap. A number cut in a table would be another number."""
    table = Table.grid()
    for difference in mismatch.first[:_DIFFERENCES]:
        expected, got = view.pair(difference.expected, difference.got)
        table.add_row(ink(f"{view.index(difference.index)}: expected {expected}, got {got}"))
    return table


def _last_lines(ink: Ink, text: str, most: int) -> list[RenderableType]:
    lines = view.block(text).split("\n")
    cut = len(lines) - most
    shown: list[RenderableType] = (
        [ink(f"… {counted(cut, 'line above is', 'lines above are')} cut …", "dim")] if cut > 0 else []
    )
    return [*shown, quoted(ink, lines[-most:])]
