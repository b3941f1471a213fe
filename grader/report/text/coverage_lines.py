"""Print what programs touch on a terminal: a line under a part, or the matrix of programs and elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from grader.record.checks import PartInfo
from grader.record.launches import Coverage, CoveringLaunch
from grader.report import coverage, view
from grader.report.figures import matrix
from grader.report.figures.matrix import Look, TensorPanel
from grader.report.text.ink import Ink, indent

_PROGRAM = "program"
_MOST_ROWS = 16
# The columns of a tensor: at least so many beside others.
_LEAST_COLUMNS, _MOST_COLUMNS = 16, 80
_BETWEEN = 2


@dataclass(frozen=True)
class _Sign:
    """The sign of a cell, in ASCII too, with its style and its meaning for the legend."""

    sign: str
    ascii: str
    style: str
    meaning: str


_SIGNS: dict[Look, _Sign] = {
    "read": _Sign("░", "r", "blue", "read"),
    "write": _Sign("█", "w", "green", "written"),
    "both": _Sign("▓", "b", "cyan", "read and written"),
    "clash": _Sign("X", "X", "bold red", "stored by several programs"),
    "": _Sign("·", ".", "dim", "not touched"),
}
_HOLLOW = _Sign("□", "o", "bold yellow", "written by no program")
_BLANK = _Sign(" ", " ", "", "")


def few(ink: Ink, part: PartInfo, *, faults_only: bool) -> RenderableType:
    """Return a line for each launch of the part's call; of those without faults none, if only faults are asked for."""
    if part.coverage is None:
        return Group()
    shown = part.coverage
    lines: list[Text] = []
    for launch, sentence in zip(shown.launches, coverage.sentences(shown), strict=False):
        if faults := coverage.faults(shown, launch):
            said = " ".join([f"{sentence} ({view.line(shown.words, 200)}).", *faults])
            lines.append(ink("! grid ", "bold yellow").append_text(ink(said)))
        elif not faults_only:
            lines.append(ink(f"grid {sentence}", "dim"))
    return Group(*(indent(line, 2) for line in lines))


def pictured(ink: Ink, shown: Coverage) -> RenderableType:
    """Return the matrix of every launch, with its numbers."""
    blocks: list[RenderableType] = []
    for launch, sentence in zip(shown.launches, coverage.sentences(shown), strict=False):
        blocks += [ink(sentence, "bold"), *map(ink, [*coverage.facts(launch), *coverage.advice(launch)])]
        blocks += [_Matrix(ink, launch), Text()]
    if shown.more:
        blocks.append(ink(coverage.sentences(shown)[-1], "dim"))
    return Group(*blocks)


@dataclass(frozen=True)
class _Matrix:
    """The matrix of one launch: as many tensors side by side as fit, each with at least a few tiles."""

    ink: Ink
    launch: CoveringLaunch

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        count = len(matrix.panels(self.launch))
        if not count:
            yield self.ink("This launch is too large for a picture: choose a smaller case with --case.", "dim")
            return
        labels = [row.label for row in matrix.panels(self.launch, rows=_MOST_ROWS)[0].rows]
        label = max(map(len, [_PROGRAM, *labels]))
        room = options.max_width - label
        beside = max(1, min(count, room // (_LEAST_COLUMNS + _BETWEEN)))
        each = max(1, min(_MOST_COLUMNS, room // beside - _BETWEEN))
        drawn = matrix.panels(self.launch, rows=_MOST_ROWS, columns=each)
        for start in range(0, count, beside):
            for name, cells in self._lines(drawn[start : start + beside]):
                yield self._line(self.ink(name.rjust(label), "dim"), cells, each)
            yield Text()
        yield self._legend(drawn)

    def _lines(self, drawn: Sequence[TensorPanel]) -> Iterator[tuple[str, list[Text]]]:
        """Yield label and cells: the headings, a line for each row, and one of the elements that no program writes."""
        yield _PROGRAM, [self.ink(one.name) for one in drawn]
        yield "", [self.ink(f"{one.each} a cell", "dim") for one in drawn]
        for place, row in enumerate(drawn[0].rows):
            yield row.label, [self._apart(one, [_SIGNS[look] for look in one.rows[place].looks]) for one in drawn]
        if any(any(one.hollow) for one in drawn):
            yield "none", [self._apart(one, [_HOLLOW if gap else _BLANK for gap in one.hollow]) for one in drawn]

    def _line(self, label: Text, cells: Sequence[Text], each: int) -> Text:
        line = label
        for cell in cells:
            cell.truncate(each, pad=True)
            line = line.append(" " * _BETWEEN).append_text(cell)
        line.rstrip()
        return line

    def _apart(self, panel: TensorPanel, signs: Sequence[_Sign]) -> Text:
        """Return the signs of one row, with a gap between two rows of tiles."""
        drawn = [Text(one.ascii if self.ink.ascii_only else one.sign, one.style) for one in signs]
        lines = [drawn[start : start + panel.across] for start in range(0, len(drawn), panel.across)]
        return Text(" " if panel.is_tiled else "").join(Text().join(line) for line in lines)

    def _legend(self, drawn: Sequence[TensorPanel]) -> Text:
        """Return the meaning of the signs that occur."""
        looks = {look for one in drawn for row in one.rows for look in row.looks}
        met = [one for look, one in _SIGNS.items() if look in looks]
        met += [_HOLLOW] if any(any(one.hollow) for one in drawn) else []
        told = [f"{one.ascii if self.ink.ascii_only else one.sign} {one.meaning}" for one in met]
        return self.ink("   ".join(told), "dim")
