"""Render a record for a terminal: passed checks, one card per cause, and the next command, on one screen if possible.

Nothing from a record is read as markup: every piece becomes a rich Text, control characters are removed first, and no
printed line can be a workflow command of a CI service.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from grader.phrases import counted
from grader.record.checks import DEAREST_GROUP, CheckResult, PartInfo
from grader.record.launches import Coverage
from grader.record.record import PrintedOutput, Record
from grader.record.statuses import UNJUDGED
from grader.record.verdicts import headline, worst_of
from grader.report import efficiency, kernels, view
from grader.report.interview import AnsweredQuestion
from grader.report.page.beside import PartBeside
from grader.report.status import LOOKS
from grader.report.text import cause_lines, coverage_lines, efficiency_lines, kernel_lines, speed_lines
from grader.report.text.ink import WORD_WIDTH, CommandLine, Ends, Ink, Rows, indent, labelled, quoted, to_text
from grader.report.text.surroundings_lines import surroundings

_PRINTED_LINES = 6
_NOTES = 4
# Columns from which on a line of a part also holds the points that were not judged.
_WIDE = 80


def render(
    record: Record,
    *,
    width: int = 100,
    colour: bool = False,
    ascii_only: bool = False,
    focus: str | None = None,
    just_passed: Collection[str] = (),
    step: view.Step | None = None,
    one_case: bool = False,
) -> str:
    """Return the whole result as text that ends in a newline.

    focus: the part that comes next. It is shown in full if something was tried in it, and so are the parts that have
    just passed. The other parts get a line each. The loop shows this after every save. step: what comes next, if it is
    not what the record says. one_case: the record is of a case that was run again, and its inputs are shown.
    """
    ink = Ink(ascii_only)
    attention = any(check.status in view.LEARNERS for check in record.checks)
    blocks: list[RenderableType] = [_header(ink, record), Text()]
    if focus is None:
        blocks += [_part(ink, record, part, brief=attention) for part in view.parts_of(record)]
        blocks += [Group(surroundings(ink, check), Text()) for check in record.checks if one_case and check.cause]
        blocks += [
            _printed(ink, record.printed),
            _notes(ink, record.checks),
            _footer(ink, record, step or view.next_step(record)),
        ]
    else:
        blocks += _focused(ink, record, focus, just_passed, narrow=width < _WIDE)
    return to_text(Group(*blocks), width, colour)


def render_case(record: Record, *, width: int = 100, colour: bool = False, ascii_only: bool = False) -> str:
    """Return what a record of one case adds to the card: the inputs, and the elements around the worst one."""
    ink = Ink(ascii_only)
    blocks: list[RenderableType] = []
    for check in record.checks:
        symbol, word = ink.status(check)
        said = view.why(check) if check.status != "pass" else "This case passes now. The other cases were not run."
        blocks.append(Text(" ").join([symbol, word]).append_text(ink(f"  {view.line(check.title, 200)}", "bold")))
        blocks += [indent(ink(said), 2), indent(surroundings(ink, check), 2)]
    return to_text(Group(*blocks, _printed(ink, record.printed)), width, colour)


def render_check(check: CheckResult, *, width: int = 100, colour: bool = False, ascii_only: bool = False) -> str:
    """Return one check as a single line without a line end, for progress."""
    ink = Ink(ascii_only)
    symbol, word = ink.status(check)
    word.pad_right(WORD_WIDTH - len(word.plain))
    tail = ink(f"  {view.check_points(check)}  {check.duration_s:.1f} s", "dim")
    title = ink(f"{view.line(check.part, 60)}: {view.line(check.title)}")
    room = max(4, width - WORD_WIDTH - 5 - tail.cell_len)
    if title.cell_len > room:
        dots = ink("…")
        title.truncate(room - dots.cell_len, overflow="crop")
        # Between words, where the line has room for some: half a name would be another name.
        # Not by 0: that leaves nothing.
        if whole_words := title.plain.rpartition(" ")[0]:
            title.right_crop(len(title.plain) - len(whole_words))
        title.append_text(dots)
    return to_text(Text("  ").join([symbol, word, title]).append_text(tail), width, colour).split("\n", 1)[0]


def render_kernels(
    parts: Iterable[PartInfo], *, width: int = 100, colour: bool = False, ascii_only: bool = False
) -> str:
    """Return everything about the compiled kernels of these parts."""
    ink = Ink(ascii_only)
    blocks: list[RenderableType] = []
    for part in parts:
        blocks += [
            ink(view.line(part.title, 200), "bold underline"),
            kernel_lines.everything(ink, part),
            Text(),
        ]
    return to_text(Group(*blocks), width, colour)


def render_coverage(coverage: Coverage, *, width: int = 100, colour: bool = False, ascii_only: bool = False) -> str:
    """Return which programs of a call read and write which elements, as a matrix of signs."""
    return to_text(coverage_lines.pictured(Ink(ascii_only), coverage), width, colour)


def render_beside(
    parts: Iterable[PartBeside], *, width: int = 100, colour: bool = False, ascii_only: bool = False
) -> str:
    """Return what the learner's solution and the model solution cost, and the author's words on the latter."""
    ink = Ink(ascii_only)
    blocks: list[RenderableType] = []
    for part in parts:
        rows = [(row.name, row.own, row.model) for row in part.costs]
        blocks.append(ink(view.line(part.title, 200), "bold underline"))
        if rows:
            blocks.append(
                efficiency_lines.table(ink, (f"at {part.case}" if part.case else "cost", "yours", "model"), rows)
            )
        blocks += [indent(ink(part.commentary), 2)] if part.commentary else []
        blocks.append(Text())
    return to_text(Group(*blocks), width, colour)


def render_answers(
    found: Iterable[AnsweredQuestion], *, width: int = 100, colour: bool = False, ascii_only: bool = False
) -> str:
    """Return questions, their answers, and the learner's own figures."""
    ink = Ink(ascii_only)
    blocks: list[RenderableType] = []
    for one in found:
        blocks += [ink(one.question, "bold"), *(indent(ink(text), 2) for text in one.paragraphs)]
        blocks += [indent(labelled(ink, "· ", text), 2) for text in one.own]
        blocks.append(Text())
    return to_text(Group(*blocks), width, colour)


def render_rooflines(
    sections: Iterable[efficiency_lines.Section],
    roofs: efficiency_lines.PredictedGpus,
    *,
    width: int = 100,
    colour: bool = False,
    ascii_only: bool = False,
) -> str:
    """Return each part's counts and predictions, and the ceilings that the predictions use."""
    ink = Ink(ascii_only)
    blocks: list[RenderableType] = []
    for one in sections:
        blocks += [efficiency_lines.section(ink, one), Text()]
    return to_text(Group(*blocks, efficiency_lines.roofs(ink, roofs)), width, colour)


def _header(ink: Ink, record: Record) -> RenderableType:
    title = ink(view.line(record.exercise.title, 120), "bold").append_text(
        ink(f"  {view.line(record.exercise.id, 60)}", "dim")
    )
    top = Ends(title, ink(view.device(record.env)))
    file = ink(view.line(record.submission.path, 600)).append_text(
        ink(f"  sha256 {view.line(record.submission.sha256, 64)[:12]}", "dim")
    )
    return Group(top, file)


def _part(ink: Ink, record: Record, part: PartInfo, *, brief: bool, alone: bool = False) -> RenderableType:
    """Return a part's heading, its checks, and a card per cause; `brief` keeps a part without failures to two lines.

    alone: no part stands above this one.
    """
    checks = [check for check in record.checks if check.part == part.name]
    heading = Ends(ink(view.line(part.title, 200), "bold"), ink(view.tally_points(view.tally(checks))))
    rows = Rows([])
    unsaid = _first_of_each_reason(record.checks)
    calm = brief and all(check.status not in view.LEARNERS for check in checks)
    for group in _lines(checks, calm):
        _add_line(ink, rows, group, len(checks), why=any(check.id in unsaid for check in group), counted=not calm)
    told = [check for check in checks if _has_card(check) and (alone or not _is_told_above(check, record))]
    cards = [cause_lines.card(ink, record, group) for group in view.by_kind(told)]
    timed = [check for check in checks if check.speed is not None]
    speeds = [
        speed_lines.measured(ink, check, check.speed, brief=brief, several=len(timed) > 1)
        for check in timed
        if check.speed
    ]
    target = kernels.shown_target(record.env)
    compiled = kernel_lines.few(ink, part, target, findings_only=brief)
    covering = coverage_lines.few(ink, part, faults_only=brief)
    return Group(heading, rows, *cards, *speeds, covering, compiled, Text())


def _focused(
    ink: Ink, record: Record, focus: str, just_passed: Collection[str], *, narrow: bool
) -> Iterator[RenderableType]:
    """Return one line for every part, the parts in full that have something new to say, and the headline."""
    rows = Rows([])
    for part in view.parts_of(record):
        checks = tuple(check for check in record.checks if check.part == part.name)
        symbol, word = ink.look(LOOKS[worst_of(checks)])
        sums = view.tally(checks)
        points = ink(f"{view.points(sums.earned)}/{view.points(sums.judged)}" if narrow else view.tally_points(sums))
        rows.add(symbol, word, ink(view.line(part.title, 200)), points)
    yield Group(rows, Text())
    unwritten = [check for check in record.checks if check.part == focus and check.status in view.LEARNERS]
    is_unwritten = bool(unwritten) and all(check.status == "not_implemented" for check in unwritten)
    for part in view.parts_of(record):
        if part.name in just_passed:
            yield _part(ink, record, part, brief=False, alone=True)
        elif part.name == focus and not is_unwritten:
            yield _part(ink, record, part, brief=True, alone=True)
    yield _printed(ink, record.printed)
    yield ink(headline(record), "bold")
    if is_unwritten:
        yield labelled(ink, f"Next: write {view.line(focus, 60)}", view.left_to_write(unwritten[0]))


def _first_of_each_reason(checks: Iterable[CheckResult]) -> set[str]:
    """Return the checks with a new reason: a package that is missing is named once, not in every part."""
    first: dict[str, str] = {}
    return {
        check.id
        for check in checks
        if check.status not in UNJUDGED or first.setdefault(view.why(check), check.id) == check.id
    }


def _has_card(check: CheckResult) -> bool:
    # Being too slow has no cause beyond the measurements, which have a block of their own.
    is_speed_alone = check.cause is None and check.counterexample is None and check.speed is not None
    return check.status in view.LEARNERS and check.status != "not_implemented" and not is_speed_alone


def _is_told_above(check: CheckResult, record: Record) -> bool:
    """Return whether a part above has told it already: a file that does not load has one error for all parts."""
    unloaded = (one.part for one in record.checks if one.status == "invalid_submission")
    return check.status == "invalid_submission" and check.part != next(unloaded)


def _lines(checks: list[CheckResult], brief: bool) -> list[list[CheckResult]]:
    """Group the checks by line: checks without details share one."""

    def shared(check: CheckResult) -> bool:
        if check.status == "pass":
            return brief and not check.passed_in_part
        # A file that does not load says nothing of one check more than of another.
        return check.status == "invalid_submission" or not _has_card(check)

    together = [group for group in view.by_cause(check for check in checks if shared(check)) if len(group) > 1]
    first = {group[0].id: group for group in together}
    later = {check.id for group in together for check in group[1:]}
    return [first.get(check.id, [check]) for check in checks if check.id not in later]


def _add_line(ink: Ink, rows: Rows, group: list[CheckResult], total: int, *, why: bool, counted: bool) -> None:
    """Add one line for these checks, with reasons and counts below it if the caller asks for them."""
    check = group[0]
    symbol, word = ink.status(check)
    if len(group) == 1:
        title = ink(view.line(check.title, 300))
    else:
        names = ", ".join(map(view.short_name, group))
        title = ink("all its checks" if len(group) == total else f"{len(group)} checks: {names}")
    rows.add(symbol, word, title, ink(view.group_points(group)))
    if why and check.status != "pass" and not _has_card(check) and view.why(check):
        rows.add(Text(), Text(), ink(view.why(check), "dim"), Text())
    # A card already says what was counted. A check that passes in part always says it.
    if (
        (counted or check.passed_in_part)
        and len(group) == 1
        and not _has_card(check)
        and (said := efficiency.sentence(check))
    ):
        rows.add(Text(), Text(), ink(said, "dim"), Text())
    if check.passed_in_part and (dearest := check.evidence.get(DEAREST_GROUP)):
        rows.add(Text(), Text(), ink(view.line(f"{DEAREST_GROUP}: {dearest}", 600), "dim"), Text())


def _printed(ink: Ink, printed: PrintedOutput) -> RenderableType:
    """Return the start and the end of what the submission printed."""
    if not printed.text:
        return Group()
    title = f"Your code printed {counted(printed.total_bytes, 'byte')}"
    title += f" ({printed.cut_bytes:,} of them are not in the record)" if printed.cut_bytes else ""
    lines = view.block(printed.text).split("\n")
    half, cut = _PRINTED_LINES // 2, len(lines) - _PRINTED_LINES
    shown: list[RenderableType] = [quoted(ink, lines)]
    if cut > 0:
        shown = [quoted(ink, lines[:half]), ink(f"… {counted(cut, 'line')} cut …", "dim"), quoted(ink, lines[-half:])]
    return Group(ink(title, "bold"), *(indent(entry, 2) for entry in shown), Text())


def _notes(ink: Ink, checks: Iterable[CheckResult]) -> RenderableType:
    """Return what was left out: each note once, with the number of its checks."""
    counts: dict[str, int] = {}
    for check in checks:
        for note in check.notes:
            counts[note] = counts.get(note, 0) + 1
    lines: list[RenderableType] = []
    for note, count in list(counts.items())[:_NOTES]:
        lines.append(labelled(ink, "Left out: ", f"{view.line(note, 240)} ({counted(count, 'check')})"))
    if len(counts) > _NOTES:
        lines.append(ink(f"… {counted(len(counts) - _NOTES, 'more note is', 'more notes are')} in the record …", "dim"))
    return Group(*lines, Text()) if lines else Group()


def _footer(ink: Ink, record: Record, step: view.Step) -> RenderableType:
    return Group(ink(headline(record), "bold"), CommandLine(ink, f"Next: {step.words}:", step.command))


def folded(text: str, width: int, ascii_only: bool = False) -> list[str]:
    """Return a sentence as lines of at most this width."""
    return textwrap.wrap(Ink(ascii_only)(view.line(text, 2000)).plain, max(width - 1, 20)) or [""]
