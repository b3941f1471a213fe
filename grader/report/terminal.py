"""A record for a terminal: what passed, one card per cause, and the next command, on one screen if possible.

Nothing from a record is ever read as markup: every piece becomes a rich Text, control characters are taken out first,
and no printed line can be a workflow command of a CI service.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grader.cleaning import clean, disarmed, in_ascii
from grader.record import UNJUDGED, CheckResult, Mismatch, PartInfo, PrintedOutput, Record, Speed, headline, verdict_of
from grader.report import along, efficiency, efficiency_lines, kernel_lines, kernels, view
from grader.report import speed as timing
from grader.report.picture import ASCII_SHADES, SHADES, cell_size, shade_rows
from grader.report.status import LOOKS, Tone, in_part, look_of
from grader.report.widest import Widest

_STYLES: dict[Tone, str] = {
    "good": "green",
    "part": "yellow",
    "bad": "red",
    "todo": "yellow",
    "quiet": "cyan",
    "ours": "magenta",
}

# Columns from which on a status' word has a column of its own.
_ROOMY = 60
_WORD_WIDTH = max(len(look.word) for look in LOOKS.values())
_DIFFERENCES = 3
_PICTURE = (4, 60)
_TRACEBACK_LINES = 6
_PRINTED_LINES = 6
_NOTES = 4
_SIZES = 24


@dataclass(frozen=True)
class _Ink:
    """Turns strings into Text, in ASCII where asked. Nothing that a terminal would obey comes past it."""

    ascii_only: bool

    def __call__(self, text: str, style: str = "") -> Text:
        text = clean(text)
        if self.ascii_only:
            text = in_ascii(text)
        return Text(text, style=style, overflow="fold")

    def status(self, check: CheckResult) -> tuple[Text, Text]:
        """Symbol and word of a check's status."""
        look = look_of(check)
        style = _STYLES[look.tone]
        return self(look.ascii if self.ascii_only else look.symbol, f"bold {style}"), self(look.word, style)


@dataclass(frozen=True)
class _Quote:
    """A submission's lines, each behind a bar even where it wraps: they cannot pass for the grader's own words."""

    bar: Text
    lines: tuple[Text, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for entry in self.lines:
            for piece in entry.wrap(console, max(8, options.max_width - 2)) or [Text()]:
                yield Text(" ").join([self.bar, piece])


@dataclass(frozen=True)
class _Ends:
    """Two texts at the two ends of a line; of two lines where one has no room for both."""

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
class _Rows:
    """Lines of symbol, word, title and points; the word stands before the title where it has no room for itself."""

    rows: list[tuple[Text, Text, Text, Text]]

    def add(self, symbol: Text, word: Text, title: Text, points: Text) -> None:
        """One more line."""
        self.rows.append((symbol, word, title, points))

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        roomy = options.max_width >= _ROOMY
        table = Table.grid(expand=True, padding=(0, 2, 0, 0))
        table.add_column(width=3 if roomy else 1, justify="right")
        if roomy:
            table.add_column(width=_WORD_WIDTH)
        table.add_column(ratio=1)
        table.add_column(justify="right", no_wrap=True)
        for symbol, word, title, points in self.rows:
            if roomy:
                table.add_row(symbol, word, title, points)
            else:
                table.add_row(symbol, Text(": ").join(filter(None, (word, title))), points)
        yield table


def render(
    record: Record, *, width: int = 100, colour: bool = False, ascii_only: bool = False, focus: str | None = None
) -> str:
    """The whole result as text that ends in a newline.

    focus: the one part that is shown in full, the others in a line each, and no next step: for a screen that is looked
    at after every save.
    """
    ink = _Ink(ascii_only)
    attention = any(check.status in view.LEARNERS for check in record.checks)
    blocks: list[RenderableType] = [_header(ink, record), Text()]
    if focus is None:
        blocks += [_part(ink, record, part, brief=attention) for part in view.parts_of(record)]
        blocks += [_printed(ink, record.printed), _notes(ink, record.checks), _footer(ink, record)]
    else:
        blocks += _focused(ink, record, focus, narrow=width < _ROOMY)
    return _to_text(Group(*blocks), width, colour)


def render_check(check: CheckResult, *, width: int = 100, colour: bool = False, ascii_only: bool = False) -> str:
    """One check as a single line without a line end, for showing progress."""
    ink = _Ink(ascii_only)
    symbol, word = ink.status(check)
    word.pad_right(_WORD_WIDTH - len(word.plain))
    tail = ink(f"  {view.check_points(check)}  {check.duration_s:.1f} s", "dim")
    title = ink(f"{view.line(check.part, 60)}: {view.line(check.title)}")
    room = max(4, width - _WORD_WIDTH - 5 - tail.cell_len)
    if title.cell_len > room:
        dots = ink("…")
        title.truncate(room - dots.cell_len, overflow="crop")
        title.append_text(dots)
    return _to_text(Text("  ").join([symbol, word, title]).append_text(tail), width, colour).split("\n", 1)[0]


def render_kernels(
    parts: Iterable[PartInfo], *, width: int = 100, colour: bool = False, ascii_only: bool = False
) -> str:
    """Everything that the kernels of these parts were compiled to."""
    ink = _Ink(ascii_only)
    blocks: list[RenderableType] = []
    for part in parts:
        blocks += [
            ink(view.line(part.title, 200), "bold underline"),
            kernel_lines.everything(ink, part, _STYLES),
            Text(),
        ]
    return _to_text(Group(*blocks), width, colour)


def render_rooflines(
    sections: Iterable[efficiency_lines.Section],
    roofs: efficiency_lines.Roofs,
    *,
    width: int = 100,
    colour: bool = False,
    ascii_only: bool = False,
) -> str:
    """What was counted and predicted for each part, and the roofs that the predictions rest on."""
    ink = _Ink(ascii_only)
    blocks: list[RenderableType] = []
    for one in sections:
        blocks += [efficiency_lines.section(ink, one), Text()]
    return _to_text(Group(*blocks, efficiency_lines.roofs(ink, roofs)), width, colour)


def _to_text(content: RenderableType, width: int, colour: bool) -> str:
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
        console.print(content)
    text = "\n".join(entry.rstrip() for entry in capture.get().rstrip("\n").split("\n")) + "\n"
    return disarmed(text)


def _header(ink: _Ink, record: Record) -> RenderableType:
    title = ink(view.line(record.exercise.title, 120), "bold").append_text(
        ink(f"  {view.line(record.exercise.id, 60)}", "dim")
    )
    top = _Ends(title, ink(view.device(record.env)))
    file = ink(view.line(record.submission.path, 600)).append_text(
        ink(f"  sha256 {view.line(record.submission.sha256, 64)[:12]}", "dim")
    )
    return Group(top, file)


def _part(ink: _Ink, record: Record, part: PartInfo, *, brief: bool) -> RenderableType:
    """A part's heading, its checks, and a card per cause. `brief`: a part without trouble takes a line or two."""
    checks = [check for check in record.checks if check.part == part.name]
    heading = _Ends(ink(view.line(part.title, 200), "bold"), ink(view.tally_points(view.tally(checks))))
    rows = _Rows([])
    unsaid = _first_of_each_reason(record.checks)
    calm = brief and all(check.status not in view.LEARNERS for check in checks)
    for group in _lines(checks, calm):
        _add_line(ink, rows, group, len(checks), why=any(check.id in unsaid for check in group), counted=not calm)
    cards = [_card(ink, record, group) for group in view.by_kind(check for check in checks if _has_card(check))]
    timed = [check for check in checks if check.speed is not None]
    speeds = [_speed(ink, check, check.speed, brief=brief, several=len(timed) > 1) for check in timed if check.speed]
    target = kernels.shown_target(record.env)
    compiled = kernel_lines.few(ink, part, target, _STYLES, findings_only=brief)
    return Group(heading, rows, *cards, *speeds, compiled, Text())


def _focused(ink: _Ink, record: Record, focus: str, *, narrow: bool) -> Iterator[RenderableType]:
    """One line for every part, the one part in full, and the headline."""
    rows = _Rows([])
    for part in view.parts_of(record):
        checks = tuple(check for check in record.checks if check.part == part.name)
        summary = LOOKS[verdict_of(checks)]
        style = _STYLES[summary.tone]
        symbol = ink(summary.ascii if ink.ascii_only else summary.symbol, f"bold {style}")
        sums = view.tally(checks)
        points = ink(f"{view.points(sums.earned)}/{view.points(sums.judged)}" if narrow else view.tally_points(sums))
        rows.add(symbol, ink(summary.word, style), ink(view.line(part.title, 200)), points)
    yield Group(rows, Text())
    for part in view.parts_of(record):
        if part.name == focus:
            yield _part(ink, record, part, brief=True)
    yield _printed(ink, record.printed)
    yield ink(headline(record), "bold")


def _first_of_each_reason(checks: Iterable[CheckResult]) -> set[str]:
    """The checks whose reason is not a repetition: what a machine lacks is said once, not in every part."""
    first: dict[str, str] = {}
    return {
        check.id
        for check in checks
        if check.status not in UNJUDGED or first.setdefault(view.why(check), check.id) == check.id
    }


def _has_card(check: CheckResult) -> bool:
    # Being too slow has no cause beyond the measurements, which have a block of their own.
    told = check.cause is None and check.counterexample is None and check.speed is not None
    return check.status in view.LEARNERS and check.status != "not_implemented" and not told


def _lines(checks: list[CheckResult], brief: bool) -> list[list[CheckResult]]:
    """The checks by line: those that need no line of their own share one."""

    def shared(check: CheckResult) -> bool:
        if check.status == "pass":
            return brief and not in_part(check)
        # A file that does not load says nothing of one check more than of another.
        return check.status == "invalid_submission" or not _has_card(check)

    together = [group for group in view.by_cause(check for check in checks if shared(check)) if len(group) > 1]
    first = {group[0].id: group for group in together}
    later = {check.id for group in together for check in group[1:]}
    return [first.get(check.id, [check]) for check in checks if check.id not in later]


def _add_line(ink: _Ink, rows: _Rows, group: list[CheckResult], total: int, *, why: bool, counted: bool) -> None:
    """One line for these checks, and under it why they are not passed and what was counted, as far as is wanted."""
    check = group[0]
    symbol, word = ink.status(check)
    if len(group) == 1:
        title = ink(view.line(check.title, 300))
    else:
        title = ink(
            "all its checks" if len(group) == total else f"{len(group)} checks: {', '.join(map(_short_name, group))}"
        )
    points = view.check_points(check)
    if len(group) > 1:
        sums = view.tally(group)
        points = (
            f"{view.points(sums.earned)}/{view.points(sums.judged)}"
            if sums.judged
            else f"–/{view.points(sums.unjudged)}"
        )
    rows.add(symbol, word, title, ink(points))
    if why and check.status != "pass" and not _has_card(check) and view.why(check):
        rows.add(Text(), Text(), ink(view.why(check), "dim"), Text())
    # A card tells what was counted in its own words.
    if counted and len(group) == 1 and not _has_card(check) and (said := efficiency.sentence(check)):
        rows.add(Text(), Text(), ink(said, "dim"), Text())


def _short_name(check: CheckResult) -> str:
    return view.line(check.id, 60).removeprefix(f"{check.part}.").replace("_", " ")


def _card(ink: _Ink, record: Record, group: list[CheckResult]) -> RenderableType:
    """One cause: what it is, the smallest case that shows it, where the output is wrong, and how to see it again."""
    check = group[0]
    cause, example = check.cause, check.counterexample
    symbol, _ = ink.status(check)
    title = symbol.append_text(ink(f" {view.line(check.title, 200)}", "bold"))
    lines: list[RenderableType] = []
    if cause is None:
        lines.append(ink(view.why(check)))
    else:
        title.append_text(ink(f" — {view.line(cause.title, 200)}", "bold"))
        shown = f" ({view.line(cause.case, 160)})" if cause.case else ""
        lines.append(ink(f"{view.line(cause.rationale)}{shown}"))
        if (cause.expected or cause.actual) and cause.mismatch is None:
            lines.append(ink(f"Expected {view.line(cause.expected, 160)}, got {view.line(cause.actual, 160)}"))
    if example is not None:
        passes = f"; passes for {view.line(example.passes, 160)}" if example.passes else ""
        lines.append(_labelled(ink, "Smallest failing case: ", f"{view.line(example.words, 200)}{passes}"))
    if cause is not None and cause.mismatch is not None:
        lines += _mismatch(ink, cause.mismatch)
    if cause is not None and cause.traceback:
        lines += _last_lines(ink, cause.traceback, _TRACEBACK_LINES)
    if cause is not None and cause.help:
        lines.append(_labelled(ink, "Help: ", view.line(cause.help)))
    if cause is not None:
        lines += [_labelled(ink, label, text) for label, text in view.suspected(cause)]
    if len(group) > 1 and check.status != "invalid_submission":
        lines.append(_labelled(ink, "Alike: ", "; ".join(_in_passing(one, alone=len(group) == 2) for one in group[1:])))
    if example is not None and example.replay:
        lines.append(_labelled(ink, "Replay: ", view.replay_command(example, record), "bold"))
    return Group(Text(), _indent(title, 2), *(_indent(entry, 4) for entry in lines))


def _in_passing(check: CheckResult, *, alone: bool) -> str:
    """A check that failed like the one whose card this is: its title, and its smallest case if there is no other."""
    words = f" ({view.line(check.counterexample.words, 120)})" if check.counterexample and alone else ""
    return f"{view.line(check.title, 120)}{words}"


def _mismatch(ink: _Ink, mismatch: Mismatch) -> list[RenderableType]:
    lines: list[RenderableType] = [ink(view.how_wrong(mismatch))]
    if mismatch.first:
        # Where nothing fits, numbers are folded: a part of one would be another number.
        tables = _differences(ink, mismatch, 4), _differences(ink, mismatch, 3), _said_differences(ink, mismatch)
        lines.append(_indent(Widest(tables), 2))
    if mismatch.picture is not None:
        rows, columns = _PICTURE
        size = cell_size(mismatch.picture, rows=rows, columns=columns)
        shades = ASCII_SHADES if ink.ascii_only else SHADES
        pictured = shade_rows(mismatch.picture, rows=rows, columns=columns, shades=shades)
        alike = len(pictured) > 1 and len(set(pictured)) == 1
        lines += [_indent(Text(row), 2) for row in pictured[: 1 if alike else None]]
        legend = (
            f"one sign = {size}{', all rows alike' if alike else ''}: {shades[0]} all right … {shades[3]} all wrong"
        )
        lines.append(_indent(ink(legend, "dim"), 2))
    return lines


def _differences(ink: _Ink, mismatch: Mismatch, columns: int) -> Table:
    """The first differences; where there is no room for all columns, what was allowed is left to the scorecard."""
    table = Table.grid(padding=(0, 3, 0, 0))
    for _ in range(columns):
        table.add_column(justify="right", no_wrap=True)
    table.add_row(*(ink(name, "dim") for name in ("index", "expected", "got", "allowed")[:columns]))
    for difference in mismatch.first[:_DIFFERENCES]:
        expected, got = view.pair(difference.expected, difference.got)
        cells = view.index(difference.index), expected, got, view.number(difference.allowed, 3)
        table.add_row(*map(ink, cells[:columns]))
    return table


def _said_differences(ink: _Ink, mismatch: Mismatch) -> Table:
    """The first differences in words, which wrap: a number that is cut would be another number."""
    table = Table.grid()
    for difference in mismatch.first[:_DIFFERENCES]:
        expected, got = view.pair(difference.expected, difference.got)
        table.add_row(ink(f"{view.index(difference.index)}: expected {expected}, got {got}"))
    return table


def _speed(ink: _Ink, check: CheckResult, speed: Speed, *, brief: bool, several: bool) -> RenderableType:
    """A speed check's measurements. `brief`: the headline alone; `several`: the part has more than one such check."""
    symbol, _ = ink.status(check)
    named = f"{view.line(check.title, 120)}: " if several else ""
    title = symbol.append_text(ink(f" {named}{timing.headline(speed)}", "" if brief else "bold"))
    over = along.sentence(speed)
    lines: list[RenderableType] = [ink(over)] if over else []
    if brief:
        return Group(_indent(title, 2), *(_indent(entry, 4) for entry in lines))
    lines.append(_sizes(ink, speed))
    cut = len(speed.sizes) - _SIZES
    lines += [ink(f"… {cut} more sizes are in the record …", "dim")] if cut > 0 else []
    lines += [_labelled(ink, f"{remark.label}: ", remark.text) for remark in timing.remarks(speed)[:_NOTES]]
    besides = "; ".join(one.words for one in timing.beside(speed))
    lines += [_labelled(ink, "Beside: ", besides)] if besides else []
    lines += [
        _labelled(ink, f"Absent: {', '.join(titles)}: ", view.line(why, 160))
        for why, titles in timing.absent_by_reason(speed).items()
    ]
    foretold = efficiency.compared(check)
    lines += [_labelled(ink, "Prediction: ", foretold)] if foretold else []
    # With full marks there is nothing to look for: what concerns the machine is said only where it may have cost some.
    settled = check.status == "pass" and not in_part(check)
    method = timing.method_words(speed)
    lines += [_labelled(ink, "Method: ", method)] if method else []
    if not settled:
        lines += [_labelled(ink, "Note: ", view.line(speed.note))] if speed.note else []
    if speed.gpu is not None and (speed.gpu.throttled or not settled):
        lines.append(_labelled(ink, "GPU: ", timing.gpu_words(speed.gpu)))
    return Group(Text(), _indent(title, 2), *(_indent(entry, 4) for entry in lines))


def _sizes(ink: _Ink, speed: Speed) -> Widest:
    """One row per size; what a narrow terminal has no room for is left to the scorecard, the interval last."""
    left_out: tuple[tuple[str, ...], ...] = ((), ("roofline",), ("roofline", "rate"), ("roofline", "rate", "interval"))
    return Widest(tuple(_sizes_table(ink, speed, names) for names in left_out))


def _sizes_table(ink: _Ink, speed: Speed, left_out: tuple[str, ...]) -> Table:
    columns = [name for name in ("size", "time", "ratio", "rate", "roofline", "points") if name not in left_out]
    sizes = timing.shown_sizes(speed)[:_SIZES]
    units, digits = {timing.unit(size) for size in sizes}, timing.digits_for(speed)
    table = Table.grid(padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(justify="left" if name == "size" else "right", no_wrap=name != "size")
    heads = {"rate": units.copy().pop() if len(units) == 1 else "rate"}
    table.add_row(*(ink(heads.get(name, name), "dim") for name in columns))
    for size, words in zip(sizes, timing.timed_words(sizes, speed.curves), strict=True):
        cells = {"size": words, "points": timing.percent(size.share) if size.judged else timing.NONE}
        own = timing.own(size)
        if own is not None:
            cells["time"] = timing.duration(own.median_us)
            cells["ratio"] = timing.times(own.ratio)
            if "interval" not in left_out:
                cells["ratio"] = timing.interval(own.ratio, own.ratio_low, own.ratio_high, digits)
            cells["rate"] = timing.rate(size, own) + ("" if len(units) == 1 else f" {timing.unit(size)}")
            cells["roofline"] = timing.percent(own.roofline_share)
        style = "" if size.judged else "dim"
        table.add_row(*(ink(cells.get(name, timing.NONE), style) for name in columns))
    return table


def _last_lines(ink: _Ink, text: str, most: int) -> list[RenderableType]:
    lines = view.block(text).split("\n")
    cut = len(lines) - most
    shown: list[RenderableType] = [ink(f"… {cut} lines above are cut …", "dim")] if cut > 0 else []
    return [*shown, _quote(ink, lines[-most:])]


def _printed(ink: _Ink, printed: PrintedOutput) -> RenderableType:
    """What the submission printed, both ends of it."""
    if not printed.text:
        return Group()
    title = f"Your code printed {printed.total_bytes} bytes"
    title += f" ({printed.cut_bytes} of them are not in the record)" if printed.cut_bytes else ""
    lines = view.block(printed.text).split("\n")
    half, cut = _PRINTED_LINES // 2, len(lines) - _PRINTED_LINES
    shown: list[RenderableType] = [_quote(ink, lines)]
    if cut > 0:
        shown = [_quote(ink, lines[:half]), ink(f"… {cut} lines cut …", "dim"), _quote(ink, lines[-half:])]
    return Group(ink(title, "bold"), *(_indent(entry, 2) for entry in shown), Text())


def _quote(ink: _Ink, lines: list[str]) -> _Quote:
    return _Quote(ink("|" if ink.ascii_only else "│", "dim"), tuple(ink(_short(entry)) for entry in lines))


def _short(text: str, most: int = 160) -> str:
    return text if len(text) <= most else f"{text[:most]} … {len(text) - most} characters cut …"


def _notes(ink: _Ink, checks: Iterable[CheckResult]) -> RenderableType:
    """What was left out, each note said once with the number of checks that it concerns."""
    counts: dict[str, int] = {}
    for check in checks:
        for note in check.notes:
            counts[note] = counts.get(note, 0) + 1
    lines: list[RenderableType] = []
    for note, count in list(counts.items())[:_NOTES]:
        times = "1 check" if count == 1 else f"{count} checks"
        lines.append(_labelled(ink, "Left out: ", f"{view.line(note, 240)} ({times})"))
    if len(counts) > _NOTES:
        lines.append(ink(f"… {len(counts) - _NOTES} more notes are in the record …", "dim"))
    return Group(*lines, Text()) if lines else Group()


def _footer(ink: _Ink, record: Record) -> RenderableType:
    step = view.next_step(record)
    return Group(ink(headline(record), "bold"), _labelled(ink, f"Next: {step.words}: ", step.command, "bold"))


def _labelled(ink: _Ink, label: str, text: str, style: str = "") -> Text:
    return ink(label, "dim").append_text(ink(text, style))


def _indent(content: RenderableType, columns: int) -> RenderableType:
    return Padding(content, (0, 0, 0, columns), expand=False)


def folded(text: str, width: int, ascii_only: bool = False) -> list[str]:
    """A sentence as lines of at most this width."""
    return textwrap.wrap(_Ink(ascii_only)(view.line(text, 2000)).plain, max(width - 1, 20)) or [""]
