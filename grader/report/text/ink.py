"""The base of every terminal page: strings become Text, in lines, rows and quotations.

Nothing is read as markup. Control characters are removed first, and no line can be a workflow command of a CI service.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grader.record.checks import CheckResult
from grader.report.status import LOOKS, StatusMark, Tone, look_of
from grader.text import clean, disarmed, in_ascii

# The characters of a quoted line.
_MOST_QUOTED = 160

_STYLES: dict[Tone, str] = {
    "good": "green",
    "part": "yellow",
    "bad": "red",
    "todo": "yellow",
    "quiet": "cyan",
    "ours": "magenta",
}

# Columns from which on a status' word has a column of its own.
ROOMY = 60
WORD_WIDTH = max(len(look.word) for look in LOOKS.values())


@dataclass(frozen=True)
class Ink:
    """Turns strings into Text without control characters, in ASCII if asked."""

    ascii_only: bool

    def __call__(self, text: str, style: str = "") -> Text:
        """Return the text in that style."""
        text = clean(text)
        if self.ascii_only:
            text = in_ascii(text)
        return Text(text, style=style, overflow="fold")

    def look(self, look: StatusMark) -> tuple[Text, Text]:
        """Return symbol and word."""
        style = _STYLES[look.tone]
        return self(look.ascii if self.ascii_only else look.symbol, f"bold {style}"), self(look.word, style)

    def status(self, check: CheckResult) -> tuple[Text, Text]:
        """Return symbol and word of a check's status."""
        return self.look(look_of(check))


@dataclass(frozen=True)
class Quote:
    """A submission's lines, each behind a bar even where it wraps, so that they cannot pass for the grader's words."""

    bar: Text
    lines: tuple[Text, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for entry in self.lines:
            for piece in entry.wrap(console, max(8, options.max_width - 2)) or [Text()]:
                yield Text(" ").join([self.bar, piece])


@dataclass(frozen=True)
class CommandLine:
    """A command behind a dim label, or below it if it is too long.

    It is never broken: a terminal wraps what is wider, and what is copied from there is one line. So give it a column
    and no `indent`, which would cut it.
    """

    ink: Ink
    label: str
    command: str
    column: int = 0

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        margin, label, command = Text(" " * self.column), self.ink(self.label, "dim"), self.ink(self.command, "bold")
        if self.column + label.cell_len + 1 + command.cell_len <= options.max_width:
            yield margin.append_text(label).append(" ").append_text(command)
            return
        yield indent(label, self.column)
        whole = margin.append_text(command)
        whole.no_wrap, whole.overflow = True, "ignore"
        yield whole


@dataclass(frozen=True)
class Ends:
    """Two texts at the ends of one line, or on two lines if one is too short."""

    left: Text
    right: Text

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        gap = options.max_width - self.left.cell_len - self.right.cell_len
        if gap >= 2:
            yield Text(" " * gap).join([self.left, self.right])
        else:
            yield self.left
            yield self.right


@dataclass(frozen=True)
class Rows:
    """Lines of symbol, word, title and points. A narrow terminal shows the word before the title."""

    rows: list[tuple[Text, Text, Text, Text]]

    def add(self, symbol: Text, word: Text, title: Text, points: Text) -> None:
        """Add one more line."""
        self.rows.append((symbol, word, title, points))

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        roomy = options.max_width >= ROOMY
        table = Table.grid(expand=True, padding=(0, 2, 0, 0))
        table.add_column(width=3 if roomy else 1, justify="right")
        if roomy:
            table.add_column(width=WORD_WIDTH)
        table.add_column(ratio=1)
        table.add_column(justify="right", no_wrap=True)
        for symbol, word, title, points in self.rows:
            if roomy:
                table.add_row(symbol, word, title, points)
            else:
                table.add_row(symbol, Text(": ").join(filter(None, (word, title))), points)
        yield table


def labelled(ink: Ink, label: str, text: str) -> Text:
    """Return a text behind a dim label."""
    return ink(label, "dim").append_text(ink(text))


def indent(content: RenderableType, columns: int) -> RenderableType:
    """Return content that starts at this column."""
    return Padding(content, (0, 0, 0, columns), expand=False)


def quoted(ink: Ink, lines: list[str]) -> Quote:
    """Return a submission's lines as a quotation."""
    return Quote(ink("|" if ink.ascii_only else "│", "dim"), tuple(ink(_short(entry)) for entry in lines))


def _short(text: str) -> str:
    more = len(text) - _MOST_QUOTED
    return text if more <= 0 else f"{text[:_MOST_QUOTED]} … {more} characters cut …"


def to_text(content: RenderableType, width: int, colour: bool) -> str:
    """Return rich's text of the content, which depends on the arguments alone; no line is a command of a CI service."""
    # An empty environment: what is printed depends on the arguments alone, not on COLUMNS or NO_COLOR.
    console = Console(
        file=io.StringIO(),
        width=width,
        height=50,
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
        _environ={},
    )
    with console.capture() as capture:
        # A command may be longer than a line.
        console.print(content, crop=False)
    text = "\n".join(entry.rstrip() for entry in capture.get().rstrip("\n").split("\n")) + "\n"
    return disarmed(text)
