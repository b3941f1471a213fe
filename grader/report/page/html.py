"""Render a record as one self-contained page: nothing to load; the template escapes every value."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket
from markupsafe import Markup

from grader.phrases import counted
from grader.record.causes import Picture
from grader.record.checks import CheckResult, PartInfo
from grader.record.record import Record
from grader.record.statuses import UNJUDGED
from grader.record.verdicts import given_by_hand, headline
from grader.report import by_hand, coverage, kernels, view
from grader.report.achieved import Finish, achievements
from grader.report.efficiency import EfficiencyView, efficiency_view
from grader.report.figures import chart, coverage_svg, picture, selection
from grader.report.figures.coverage_svg import DrawnLaunch
from grader.report.interview import answers
from grader.report.isolation import missing
from grader.report.page import copying
from grader.report.page.speedcard import SpeedView, speed_view
from grader.report.page.templates import page_environment
from grader.report.status import StatusMark, look_of
from grader.text import disarmed_markup

MOST_BYTES = 1_500_000
_ROWS, _COLUMNS = 48, 96
_MOST_ON_A_ROW = 4


@dataclass(frozen=True)
class _Limits:
    """The amount that one page shows.

    text: characters of a quotation. cards: whether causes and details are shown. figures: whether speed checks have
    figures.
    """

    text: int
    differences: int
    entries: int
    checks: int
    cards: bool
    figures: bool


# Tried in order until the page is small enough; the first one is meant to be enough for every real submission.
_LEVELS = (
    _Limits(text=20_000, differences=16, entries=40, checks=1000, cards=True, figures=True),
    _Limits(text=2_000, differences=4, entries=10, checks=1000, cards=True, figures=True),
    _Limits(text=300, differences=1, entries=3, checks=300, cards=True, figures=False),
    _Limits(text=100, differences=0, entries=0, checks=300, cards=False, figures=False),
)


@dataclass(frozen=True)
class CheckView:
    """A check with the page's additions.

    same_as: an earlier check of the part with the same cause. alike: an earlier check that failed in the same kind of
    way. brief: the reason on the closed row. measured: the figures on the row, '' if they stand in the card.
    """

    result: CheckResult
    look: StatusMark
    anchor: str
    points: str
    open: bool
    same_as: CheckView | None
    alike: CheckView | None
    brief: str
    measured: str
    speed: SpeedView | None
    efficiency: EfficiencyView | None = None
    selection: Markup | None = None
    selection_axes: str = ""


@dataclass(frozen=True)
class CheckGroup:
    """Checks of a part that share a row: those that passed, failed alike, or were left out for one reason.

    words: the row's text.
    """

    words: str
    why: str
    points: str
    checks: tuple[CheckView, ...]

    @property
    def first(self) -> CheckView:
        """Return the check that gives the row its status."""
        return self.checks[0]


@dataclass(frozen=True)
class PartView:
    """A part, its checks, and its points as words.

    counted: the number of its checks that passed, as words. why: its first cause of failure. open: whether the page
    shows its checks unasked.
    """

    info: PartInfo
    anchor: str
    points: str
    look: StatusMark
    counted: str
    checks: tuple[CheckView, ...]
    groups: tuple[CheckGroup, ...]
    why: str = ""
    open: bool = False
    coverage: CoverageView | None = None
    compiled: CompiledView | None = None


@dataclass(frozen=True)
class CoverageView:
    """The elements that the programs of one of a part's calls touch, drawn.

    summary: the line that is always shown. words: the case. more: the number of further launches, in words. lacking: a
    missing element is a fault. open: whether the page shows it unasked.
    """

    anchor: str
    summary: str
    words: str
    launches: tuple[DrawnLaunch, ...]
    more: str
    lacking: bool
    open: bool


@dataclass(frozen=True)
class CompiledView:
    """The compiled kernels of a part."""

    summary: str
    found: tuple[kernels.KernelView, ...]
    notes: tuple[kernels.KernelNote, ...]
    missing: tuple[tuple[str, str], ...]
    most_rows: int


@dataclass(frozen=True)
class FailureGroup:
    """The first of a part's checks that failed in one way, and the number of further ones."""

    part: str
    check: CheckView
    alike: int


@dataclass(frozen=True)
class ObjectiveEvidence:
    """One part's evidence for an objective. anchor: the first of its checks."""

    part: str
    anchor: str
    look: StatusMark
    counted: str


@dataclass(frozen=True)
class ObjectiveView:
    """A learning objective, part by part, and its points as words."""

    name: str
    points: str
    evidence: tuple[ObjectiveEvidence, ...]


def render(
    record: Record, *, finish: Finish | None = None, step: view.Step | None = None, most_bytes: int = MOST_BYTES
) -> str:
    """Return the whole page. A page longer than `most_bytes` is shortened and says so.

    finish: what the page ends in if the exercise is finished, else None. step: what comes next, if it is not what the
    record says.
    """
    page = ""
    step = step or view.next_step(record)
    for level, limits in enumerate(_LEVELS):
        page = disarmed_markup(_page(record, finish, step, limits, level))
        if len(page.encode("utf-8", "replace")) <= most_bytes:
            break
    return page


def _page(record: Record, finish: Finish | None, step: view.Step, limits: _Limits, level: int) -> str:
    parts = _parts(record, limits)
    findings = _findings(parts)
    cut_checks = len(record.checks) - sum(len(part.checks) for part in parts)
    return (
        _environment(limits, record)
        .get_template("scorecard.html.j2")
        .render(
            record=record,
            copying=copying,
            limits=limits,
            parts=parts,
            findings=findings,
            top=findings[0].check.anchor if findings else "",
            unloaded=any(check.status == "invalid_submission" for check in record.checks),
            objectives=_objectives(parts),
            headline=headline(record),
            feedback=by_hand.feedback(record),
            counted=by_hand.score(record) if given_by_hand(record) else None,
            step=step,
            finish=finish,
            achieved=achievements(record) if finish else (),
            answers=answers(finish.questions, {"": record, **finish.records}) if finish else (),
            verdict=view.verdict_look(record),
            verdict_words=view.verdict_words(record),
            device=view.device(record.env),
            # Every process has some layer: without any, the submission did not run.
            unconfined=missing(record.env.isolation) if record.env.isolation else (),
            segments=_segments(record),
            timed=any(check.speed for part in parts for check in part.checks),
            shortened=level > 0 or cut_checks > 0,
            cut_checks=cut_checks,
        )
        .lstrip()
    )


class _Compiled(BytecodeCache):
    """A cache of compiled templates.

    Compiling takes 15 times as long as rendering, and a class has hundreds of pages.
    """

    def __init__(self) -> None:
        self._cached: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Load a template that was compiled before."""
        if bucket.key in self._cached:
            bucket.bytecode_from_string(self._cached[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a compiled template."""
        self._cached[bucket.key] = bucket.bytecode_to_string()


_COMPILED = _Compiled()


def _environment(limits: _Limits, record: Record) -> Environment:
    environment = page_environment(cache=_COMPILED)
    filters: dict[str, Callable[..., object]] = {
        "line": lambda text, most=400: view.line(text, min(most, max(limits.text, 80))),
        "block": lambda text: view.block(text, limits.text),
        "code": lambda text: view.block(text, 300),
        "points": view.points,
        "number": view.number,
        "pair": lambda difference: view.pair(difference.expected, difference.got),
        "index": view.index,
        "moment": view.moment,
        "spread": view.spread,
        "replay": lambda example: view.replay_command(example, record),
        "draw": _draw,
        "cell_size": lambda drawn: picture.cell_size(drawn, rows=_ROWS, columns=_COLUMNS),
        "spaced": lambda name: view.line(name, 100).replace("_", " "),
    }
    environment.filters.update(filters)
    return environment


def _draw(drawn: Picture, name: str) -> Markup:
    return picture.draw(drawn, name, rows=_ROWS, columns=_COLUMNS)


def anchor(kind: str, name: str) -> str:
    """Return the id of a part or a check on the page."""
    return f"{kind}-{re.sub('[^A-Za-z0-9_.-]', '-', view.line(name, 100))}"


def _parts(record: Record, limits: _Limits) -> tuple[PartView, ...]:
    """Return all parts. Open is the first that failed, or else each that lacks points: one thing to do at a time."""
    shown = [_part(record, part, limits) for part in view.parts_of(record)]
    if any(check.status == "invalid_submission" for check in record.checks):
        return tuple(shown)
    failed = next((part for part in shown if part.why), None)
    return tuple(
        replace(part, open=part is failed if failed else any(check.result.passed_in_part for check in part.checks))
        for part in shown
    )


def _part(record: Record, part: PartInfo, limits: _Limits) -> PartView:
    checks = _checks([check for check in record.checks[: limits.checks] if check.part == part.name], limits)
    all_of_it = [check for check in record.checks if check.part == part.name]
    return PartView(
        info=part,
        anchor=anchor("part", part.name),
        points=view.tally_points(view.tally(all_of_it)),
        look=view.look_of_all(all_of_it),
        counted=_counted(all_of_it),
        checks=checks,
        groups=_groups(checks),
        why=next((_title(check.result) for check in checks if check.result.status in _FAILED), ""),
        coverage=_coverage(part, limits),
        compiled=_compiled(part, limits.entries),
    )


def _counted(checks: Sequence[CheckResult]) -> str:
    """Return how many of a part's checks passed; '' for a function that is not written yet."""
    if all(check.status in (*UNJUDGED, "not_implemented") for check in checks):
        return ""
    return f"{view.counted(checks)} checks passed"


# A function that is not written yet has not failed.
_FAILED = view.LEARNERS - {"not_implemented"}


def _title(check: CheckResult) -> str:
    return view.line(check.cause.title if check.cause else view.why(check), 200)


def _groups(checks: Sequence[CheckView]) -> tuple[CheckGroup, ...]:
    """Return the checks by row, in the order of their first members."""
    groups: dict[tuple[str, ...], list[CheckView]] = {}
    for check in checks:
        groups.setdefault(_row_key(check), []).append(check)
    return tuple(_group(group) for group in groups.values())


def _row_key(check: CheckView) -> tuple[str, ...]:
    result = check.result
    if result.status == "pass":
        alone = result.passed_in_part or result.speed is not None or result.selection is not None
        return ("pass", check.anchor if alone else "")
    if result.status in UNJUDGED or result.status in ("not_implemented", "invalid_submission", "skipped_dependency"):
        return (result.status, result.reason)
    return ("alike", check.alike.anchor) if check.alike else ("alone", check.anchor)


def _group(group: Sequence[CheckView]) -> CheckGroup:
    first, results = group[0], [check.result for check in group]
    names = ", ".join(map(view.short_name, results))
    words = f"{counted(len(group), 'check')}: {names}"
    if first.alike and first.result.status in _FAILED:
        words = f"{counted(len(group), 'more check')} failed in the same way: {names}"
    # What failed alike has its reason in the card above.
    why = "" if first.result.status in _FAILED else first.brief
    return CheckGroup(words, why, view.group_points(results), tuple(group))


def _coverage(part: PartInfo, limits: _Limits) -> CoverageView | None:
    """Return what the programs of the part's call touch; None if nothing is known, or there is no room."""
    shown = part.coverage
    if shown is None or not shown.launches or not limits.cards:
        return None
    place = anchor("reach", part.name)
    launches = coverage_svg.drawn(shown, place)
    if not limits.figures:
        launches = tuple(replace(launch, drawings=()) for launch in launches)
    wasteful = [launch for launch, one in zip(launches, shown.launches, strict=True) if one.footprint.is_wasteful]
    return CoverageView(
        anchor=place,
        summary=(wasteful or launches)[0].sentence,
        words=view.line(shown.words, 200),
        launches=launches,
        more="".join(coverage.sentences(shown)[len(launches) :]),
        lacking=shown.lacking,
        open=coverage.is_faulty(shown) or bool(wasteful),
    )


def _compiled(part: PartInfo, entries: int) -> CompiledView | None:
    """Return findings, kernels and rows up to the limits, or None if there is nothing to show."""
    found, notes, missing = kernels.kernels(part), kernels.kernel_notes(part), kernels.missing(part)
    if not (found or missing) or not entries:
        return None
    # sm_90 goes before sm_100.
    targets = sorted({row.target for kernel in found for row in kernel.rows}, key=lambda name: (len(name), name))
    counts = [
        counted(len(found), "kernel"),
        *([", ".join(targets)] if targets else []),
        *([counted(len(notes), "finding")] if notes else []),
        *(["some are missing"] if missing else []),
    ]
    return CompiledView("; ".join(counts), found[:entries], notes[:entries], missing[:entries], entries)


def _checks(checks: list[CheckResult], limits: _Limits) -> tuple[CheckView, ...]:
    views: list[CheckView] = []
    first: dict[tuple[str, ...], CheckView] = {}
    first_of_kind: dict[tuple[str, ...], CheckView] = {}
    for check in checks:
        same_as = first.get(view.cause_key(check)) if check.status != "pass" else None
        alike = first_of_kind.get(view.kind_key(check)) if check.status in view.LEARNERS else None
        shown = CheckView(
            result=check,
            look=look_of(check),
            anchor=anchor("check", check.id),
            points=view.check_points(check),
            # Of all failures, what failed first stands open, at the top: one thing to do at a time.
            open=check.passed_in_part or check.speed is not None or check.selection is not None,
            same_as=same_as,
            alike=alike,
            brief=_brief(check, alike.result if alike else None, limits),
            measured=_measured(check),
            speed=speed_view(check, anchor("speed", check.id), figures=limits.figures) if limits.cards else None,
            efficiency=efficiency_view(check) if limits.cards else None,
            selection=_selection(check, limits),
            selection_axes=selection.axes_words(check.selection) if check.selection else "",
        )
        first.setdefault(view.cause_key(check), shown)
        first_of_kind.setdefault(view.kind_key(check), shown)
        views.append(shown)
    return tuple(views)


def _brief(check: CheckResult, alike: CheckResult | None, limits: _Limits) -> str:
    """Return the reason why a check did not pass, in one line. A reason that stands above is only named."""
    if check.status == "pass":
        return ""
    if alike is None:
        return view.line(view.why(check), max(limits.text, 80))
    if check.status == "not_implemented":
        return ""
    title = check.cause.title if check.cause else check.reason
    where = f"; fails for {check.counterexample.words}" if check.counterexample else ""
    return view.line(title + where, max(min(limits.text, 400), 80))


def _measured(check: CheckResult) -> str:
    """Return the figures of a check that passed; '' if there are others to show, or too many for a row."""
    shown_otherwise = check.speed or check.judged_work or check.selection or check.passed_in_part
    if check.status != "pass" or shown_otherwise or len(check.metrics) > _MOST_ON_A_ROW:
        return ""
    return view.measured(check)


def _selection(check: CheckResult, limits: _Limits) -> Markup:
    """Return the picture of the costs of a check's choices; '' if there is none, or nothing to draw it with."""
    if check.selection is None or not (limits.cards and limits.figures and chart.installed()):
        return Markup("")
    return selection.picture(check.selection, anchor("selection", check.id))


def _findings(parts: tuple[PartView, ...]) -> tuple[FailureGroup, ...]:
    """Return the failures, one for each kind in each part."""
    failed = [(part.info.title, check) for part in parts for check in part.checks if check.result.status in _FAILED]
    return tuple(
        FailureGroup(title, check, sum(other.alike is check for _, other in failed))
        for title, check in failed
        if check.alike is None
    )


def _objectives(parts: tuple[PartView, ...]) -> tuple[ObjectiveView, ...]:
    names = dict.fromkeys(check.result.objective for part in parts for check in part.checks)
    return tuple(_objective(name, parts) for name in names)


def _objective(name: str, parts: tuple[PartView, ...]) -> ObjectiveView:
    groups = [(part, [check for check in part.checks if check.result.objective == name]) for part in parts]
    evidence = tuple(_evidence(part, group) for part, group in groups if group)
    sums = view.tally(check.result for _, group in groups for check in group)
    return ObjectiveView(name, view.tally_points(sums), evidence)


def _evidence(part: PartView, group: list[CheckView]) -> ObjectiveEvidence:
    results = [check.result for check in group]
    return ObjectiveEvidence(part.info.title, group[0].anchor, view.look_of_all(results), view.counted(results))


@dataclass(frozen=True)
class Segment:
    """A stretch of the points bar; `tone` names its colour and hatching."""

    tone: str
    word: str
    value: float


def _segments(record: Record) -> tuple[Segment, ...]:
    sums = view.tally(record.checks)
    # Points of functions that are not written yet are not lost.
    undone = sum(check.max_points for check in record.checks if check.status == "not_implemented")
    segments = (
        Segment("earned", "earned", sums.earned),
        Segment("lost", "lost", sums.lost - undone),
        Segment("undone", "not written yet", undone),
        Segment("unjudged", "not judged", sums.unjudged),
    )
    return tuple(segment for segment in segments if segment.value > 0)
