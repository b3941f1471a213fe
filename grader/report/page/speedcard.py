"""Prepare a speed check for the scorecard's template: words, rows and figures."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from grader.record.checks import CheckResult
from grader.record.speed import Contender, SizeTiming, Speed
from grader.report import speed as timing
from grader.report import tuned, view
from grader.report.figures import chart, curves, gauge, plots, speed_axis

NO_MATPLOTLIB = "No figures: matplotlib is not installed here (pip install matplotlib). The tables hold every number."


@dataclass(frozen=True)
class RowView:
    """One contender at one size, with every number as words."""

    title: str
    mine: bool
    time: str
    time_interval: str
    ratio: str
    tbps: str
    tflops: str
    roofline: str


@dataclass(frozen=True)
class SizeView:
    """One size: the submission's row, all rows, its points, and the method of measurement."""

    words: str
    judged: bool
    points: str
    own: RowView
    rows: tuple[RowView, ...]
    circumstances: str


@dataclass(frozen=True)
class SpeedView:
    """A speed check.

    pictures: the figures. unpictured: the reason why others are missing, as words.
    """

    result: Speed
    anchor: str
    headline: str
    verdict: str
    certainty: str
    ratio: str
    baseline: str
    bar: str
    axis: speed_axis.CurveCaption | None
    counted: str
    gauge: Markup
    pictures: tuple[tuple[Markup, str], ...]
    unpictured: str
    common: str
    sizes: tuple[SizeView, ...]
    cut_sizes: int
    tuned: tuple[tuned.TuningTable, ...]
    remarks: tuple[timing.Remark, ...]
    beside: tuple[timing.Beside, ...]
    absent: tuple[tuple[str, str], ...]
    method: str
    gpu: str


def speed_view(check: CheckResult, anchor: str, *, figures: bool) -> SpeedView | None:
    """Return the view of a check with measurements; `anchor` makes the figures' ids unique."""
    speed = check.speed
    if speed is None:
        return None
    sizes = timing.shown_sizes(speed)
    pictures, unpictured = _pictures(speed, anchor) if figures else ((), "")
    return SpeedView(
        result=speed,
        anchor=anchor,
        headline=timing.headline(speed),
        verdict=timing.verdict(speed),
        certainty=timing.certainty(speed),
        ratio=timing.ratio_words(speed) if timing.usable(speed.ratio) else "",
        baseline=timing.title_of(speed, speed.baseline),
        bar=timing.bar(speed),
        axis=speed_axis.caption_of(speed),
        counted=speed_axis.COUNTED,
        gauge=gauge.draw(speed),
        pictures=pictures,
        unpictured=unpictured,
        common=timing.common_words(sizes),
        sizes=tuple(
            _size(speed, size, words)
            for size, words in zip(sizes, timing.timed_words(sizes, speed.curves), strict=True)
        ),
        cut_sizes=len(speed.sizes) - len(sizes),
        tuned=tuned.tables(speed),
        remarks=timing.remarks(speed),
        beside=timing.beside(speed),
        absent=tuple((timing.title_of(speed, one.name), view.line(one.missing, 240)) for one in timing.absent(speed)),
        method=timing.method_words(speed),
        gpu=timing.gpu_words(speed.gpu) if speed.gpu else "",
    )


def _pictures(speed: Speed, anchor: str) -> tuple[tuple[tuple[Markup, str], ...], str]:
    """Return the figures with their captions, and the reason why one is missing."""
    if not speed.sizes:
        return (), ""
    if not chart.installed():
        return (), NO_MATPLOTLIB
    ratios, roofline = plots.ratios(speed, f"{anchor}-ratios"), plots.roofline(speed, f"{anchor}-roofline")
    drawn = []
    if ratios:
        drawn.append((ratios, "Each size's ratio, with its 95% interval. Points are earned in the shaded band."))
    if roofline:
        drawn.append((roofline, "The GPU's measured ceilings, and the speed reached at each size."))
    over = (curves.speeds(speed, f"{anchor}-over"), curves.memory(speed, f"{anchor}-memory"))
    drawn += [(curve.drawing, curve.caption) for curve in over if curve]
    return tuple(drawn), "" if roofline else _no_roofline(speed)


def _no_roofline(speed: Speed) -> str:
    if speed.ceilings is None:
        return "No roofline figure: this GPU's ceilings were not measured."
    return "No roofline figure: no size has counts of both bytes and floating-point operations."


def _size(speed: Speed, size: SizeTiming, words: str) -> SizeView:
    own = timing.own(size)
    others = [one for one in size.contenders if one is not own][: timing.MOST_CONTENDERS]
    rows = tuple(_row(speed, one, mine=one is own) for one in ([own] if own else []) + others)
    return SizeView(
        words=words,
        judged=size.judged,
        points=timing.percent(size.share) if size.judged else "not judged",
        own=rows[0] if own else _NOBODY,
        rows=rows,
        circumstances=_circumstances(size),
    )


_NOBODY = RowView(timing.OWN, True, *[timing.NONE] * 6)


def _row(speed: Speed, one: Contender, *, mine: bool) -> RowView:
    return RowView(
        title=one.name if mine else timing.title_of(speed, one.name),
        mine=mine,
        time=timing.duration(one.median_us),
        time_interval=timing.durations(one.low_us, one.high_us),
        # Ratios are relative to the band's baseline: its 1 is no measurement.
        ratio="1"
        if one.name == speed.baseline and one.ratio == 1
        else timing.interval(one.ratio, one.ratio_low, one.ratio_high, timing.digits_for(speed)),
        tbps=timing.three_digits(one.tbps),
        tflops=timing.three_digits(one.tflops),
        roofline=timing.percent(one.roofline_share),
    )


def _circumstances(size: SizeTiming) -> str:
    replayed = ["CUDA-graph replay"] if size.method == "graph" else []
    bound = "memory" if size.bound == "memory" else "compute"
    return ", ".join(
        [
            *replayed,
            f"{size.rounds} rounds",
            f"at best {timing.duration(size.floor_us)} ({bound})",
        ]
    )
