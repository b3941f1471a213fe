"""Print a speed check on a terminal: its headline, a row per size, and remarks on the measurement."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from grader.phrases import counted
from grader.record.checks import CheckResult
from grader.record.speed import Speed
from grader.report import efficiency, tuned, view
from grader.report import speed as timing
from grader.report.figures import speed_axis
from grader.report.text.ink import Ink, indent, labelled
from grader.report.text.widest import Widest

_REMARKS = 4
_CHOICES = 4
_SIZES = 24


def measured(ink: Ink, check: CheckResult, speed: Speed, *, brief: bool, several: bool) -> RenderableType:
    """Return a speed check's lines.

    brief: the headline alone. several: the part has more than one such check.
    """
    symbol, _ = ink.status(check)
    named = f"{view.line(check.title, 120)}: " if several else ""
    title = symbol.append_text(ink(f" {named}{timing.headline(speed)}", "" if brief else "bold"))
    over = speed_axis.sentence(speed)
    lines: list[RenderableType] = [ink(over)] if over else []
    if brief:
        return Group(indent(title, 2), *(indent(entry, 4) for entry in lines))
    lines += [labelled(ink, "Baseline: ", view.line(speed.fallback, 400))] if speed.fallback else []
    lines.append(_sizes(ink, speed))
    cut = len(speed.sizes) - _SIZES
    lines += [ink(f"… {counted(cut, 'more size is', 'more sizes are')} in the record …", "dim")] if cut > 0 else []
    remarks = timing.remarks(speed)
    lines += [labelled(ink, f"{remark.label}: ", remark.text) for remark in remarks[:_REMARKS]]
    if len(remarks) > _REMARKS:
        more = counted(len(remarks) - _REMARKS, "more remark is", "more remarks are")
        lines.append(ink(f"… {more} on the scorecard …", "dim"))
    chosen = tuned.choices(speed)
    lines += [labelled(ink, f"{one.label}: ", one.text) for one in chosen[:_CHOICES]]
    if len(chosen) > _CHOICES:
        more = counted(len(chosen) - _CHOICES, "more choice is", "more choices are")
        lines.append(ink(f"… {more} on the scorecard …", "dim"))
    besides = "; ".join(one.words for one in timing.beside(speed))
    lines += [labelled(ink, "Beside: ", besides)] if besides else []
    lines += [
        labelled(ink, f"Absent: {', '.join(titles)}: ", view.line(why, 160))
        for why, titles in timing.absent_by_reason(speed).items()
    ]
    foretold = efficiency.compared(check)
    lines += [labelled(ink, "Prediction: ", foretold)] if foretold else []
    # Remarks on the machine appear only if points were lost.
    settled = check.status == "pass" and not check.passed_in_part
    method = timing.method_words(speed)
    lines += [labelled(ink, "Method: ", method)] if method else []
    if not settled:
        lines += [labelled(ink, "Note: ", view.line(speed.note))] if speed.note else []
    if speed.gpu is not None and (speed.gpu.throttled or not settled):
        lines.append(labelled(ink, "GPU: ", timing.gpu_words(speed.gpu)))
    return Group(Text(), indent(title, 2), *(indent(entry, 4) for entry in lines))


def _sizes(ink: Ink, speed: Speed) -> Widest:
    """Return one row per size. A narrow terminal drops columns, the interval last."""
    left_out: tuple[tuple[str, ...], ...] = ((), ("roofline",), ("roofline", "rate"), ("roofline", "rate", "interval"))
    return Widest(tuple(_sizes_table(ink, speed, names) for names in left_out))


def _sizes_table(ink: Ink, speed: Speed, left_out: tuple[str, ...]) -> Table:
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
