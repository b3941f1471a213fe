"""Describe counted work and predicted times, with the same words for all renderers: one line, or tables.

Numbers may come from a file: an invalid amount or time becomes a dash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from grader.phrases import listed
from grader.record.checks import CheckResult
from grader.record.work import Prediction, Work
from grader.report import speed as timing
from grader.report import view

MOST_ROWS = 40
MOST_GPUS = 12
_MOST_REMARKS = 4
_MOST, _MOST_TIMES = 10**18, 1e4
_BOUND = {"memory": "memory-bound", "compute": "compute-bound", "launch": "launch-bound"}


@dataclass(frozen=True)
class WorkRow:
    """The bytes that one call moved, as words.

    allowed: the limit for all points. none: the limit from which there are no points.
    """

    words: str
    loaded: str
    stored: str
    copied: str
    moved: str
    model: str
    allowed: str
    none: str
    share: str
    launches: str
    over: bool


@dataclass(frozen=True)
class LimitRow:
    """The memory that one call used or stored.

    allowed: the limit for all points. none: the limit from which there are no points.
    """

    words: str
    used: str
    allowed: str
    none: str
    over: bool


@dataclass(frozen=True)
class TimeRow:
    """One size on several GPUs: the predicted time on each GPU, and its bound."""

    words: str
    times: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ComparedRow:
    """One size: predicted and measured time. error: the relative error of the prediction."""

    words: str
    predicted: str
    measured: str
    error: str
    bound: str


@dataclass(frozen=True)
class EfficiencyView:
    """A page's view of a check's counted work and predictions.

    sentence: the same in one line, for the row. copies: PyTorch copied something in one of the calls.
    """

    sentence: str
    work: tuple[WorkRow, ...]
    copies: bool
    stored: tuple[LimitRow, ...]
    memory: tuple[LimitRow, ...]
    gpus: tuple[str, ...]
    times: tuple[TimeRow, ...]
    compared: tuple[ComparedRow, ...]
    median: str
    cut: int


def efficiency_view(check: CheckResult) -> EfficiencyView | None:
    """Return the view of a check with counted work or predicted times, else None."""
    if not check.judged_work and not check.predictions:
        return None
    counted = check.judged_work[:MOST_ROWS]
    named = list(zip(counted, timing.length_words(counted), strict=True))
    published = [one for one in check.predictions if one.ceilings == "published"]
    gpus = tuple(dict.fromkeys(one.gpu for one in published))[:MOST_GPUS]
    compared = _beside_measured(check)
    return EfficiencyView(
        sentence=sentence(check),
        work=tuple(_work_row(one, words) for one, words in named),
        copies=any(one.copied_bytes for one in counted),
        stored=tuple(
            _limit_row(words, one.unique_stored_bytes, one.stored_allowed_bytes, one.stored_none_bytes)
            for one, words in named
            if one.stored_allowed_bytes >= 0
        ),
        memory=tuple(
            _limit_row(words, one.extra_bytes, one.extra_allowed_bytes, one.extra_none_bytes)
            for one, words in named
            if one.extra_allowed_bytes >= 0
        ),
        gpus=tuple(view.line(gpu, 40) for gpu in gpus),
        times=_time_rows(published, gpus),
        compared=tuple(_compared_row(one, words) for one, words in compared),
        median=_median_words([one for one, _ in compared]),
        cut=max(0, len(check.judged_work) - MOST_ROWS),
    )


# -- one line --------------------------------------------------------------------------------------------------------


def sentence(check: CheckResult) -> str:
    """Return the moved bytes, or the predicted time if none was measured; '' without either."""
    return moved(check.judged_work) or predicted(check.predictions)


def moved(counted: Sequence[Work]) -> str:
    """Return the counts of the call nearest to a limit, each beside its bounds."""
    if not counted:
        return ""
    place = max(range(len(counted)), key=lambda i: max(map(_used, _limits(counted[i]))))
    work, words = counted[place], timing.length_words(counted)[place]
    called, parts = _call(work, words), []
    if work.allowed_bytes >= 0:
        parts.append(
            f"moved {amount(work.moved_bytes)} bytes for {called}; the model says {amount(work.model_bytes)}, "
            f"{_bounds(work.allowed_bytes, work.none_bytes)}"
        )
    if work.stored_allowed_bytes >= 0:
        where = "" if parts else f" for {called}"
        bounds = _bounds(work.stored_allowed_bytes, work.stored_none_bytes)
        parts.append(f"stored {amount(work.unique_stored_bytes)} different bytes{where}, {bounds}")
    if work.extra_allowed_bytes >= 0:
        where = "" if parts else f" for {called}"
        end = f", no points from {amount(work.extra_none_bytes)}" if work.extra_none_bytes >= 0 else ""
        taken = f"{amount(work.extra_bytes)} of {amount(work.extra_allowed_bytes)}"
        parts.append(f"{taken} bytes of extra memory{where}{end}")
    return "; ".join(parts)


def predicted(predictions: Sequence[Prediction]) -> str:
    """Return the longest predicted time on the first named GPU; '' if times were measured."""
    known = [one for one in predictions if one.ceilings == "published" and timing.usable(one.time_us)]
    shown = [one for one in known if one.gpu == known[0].gpu]
    if not shown:
        return ""
    place = max(range(len(shown)), key=lambda i: shown[i].time_us)
    one, words = shown[place], timing.length_words(shown)[place]
    remarks = "".join(f"; {view.line(remark, 160)}" for remark in one.remarks[:_MOST_REMARKS])
    time = timing.duration(one.time_us)
    return f"predicted on {with_article(one.gpu)}: {time} at {words} ({_BOUND[one.bound]}){remarks}"


def compared(check: CheckResult) -> str:
    """Return the error of the predictions against measured times: the median, then each size; '' without any."""
    rows = _beside_measured(check)
    if not rows:
        return ""
    each = listed([f"{words} {_signed(_error(one))}" for one, words in rows], 8)
    return f"{_median_words([one for one, _ in rows])}: {each}"


def with_article(gpu: str) -> str:
    """Return a GPU's name with "a" or "an", by the sound of the first letter: "an H200", "a B200"."""
    name = view.line(gpu, 40) or "unknown GPU"
    return f"{'an' if name[0] in 'AEFHILMNORSXaeiou' else 'a'} {name}"


# -- numbers ---------------------------------------------------------------------------------------------------------


def amount(count: int) -> str:
    """Return a count with thousands separators, or a dash if it is negative."""
    return view.line(f"{count:,}", 40) if count >= 0 else timing.NONE


def _bounds(allowed: int, none: int) -> str:
    """Return the limits for all points and for no points. Older records hold no second limit."""
    return (
        f"all points up to {amount(allowed)}, none from {amount(none)}" if none >= 0 else f"allowed {amount(allowed)}"
    )


def _limits(work: Work) -> tuple[tuple[int, int], ...]:
    """Return every count with the limit for all points; -1 means no limit."""
    return (
        (work.moved_bytes, work.allowed_bytes),
        (work.unique_stored_bytes, work.stored_allowed_bytes),
        (work.extra_bytes, work.extra_allowed_bytes),
    )


def _used(limit: tuple[int, int]) -> float:
    """Return the count over its limit, or 0 without one."""
    used, allowed = limit
    # A file may hold integers that are too large for a float.
    return min(used, _MOST) / min(max(allowed, 1), _MOST) if allowed >= 0 else 0.0


def _call(work: Work, words: str) -> str:
    """Return a call in words, with the configuration of its autotuned kernels."""
    return f"{words}, with {view.line(work.configuration, 200)}" if work.configuration else words


def _work_row(work: Work, words: str) -> WorkRow:
    limited = work.allowed_bytes >= 0
    return WorkRow(
        words=_call(work, words),
        loaded=amount(work.loaded_bytes),
        stored=amount(work.stored_bytes),
        copied=amount(work.copied_bytes),
        moved=amount(work.moved_bytes),
        model=amount(work.model_bytes),
        allowed=amount(work.allowed_bytes),
        none=amount(work.none_bytes),
        share=timing.percent(_used((work.moved_bytes, work.allowed_bytes))) if limited else timing.NONE,
        launches=amount(work.launches),
        over=limited and work.moved_bytes > work.allowed_bytes,
    )


def _limit_row(words: str, used: int, allowed: int, none: int) -> LimitRow:
    return LimitRow(words, amount(used), amount(allowed), amount(none), used > allowed)


def _time_rows(published: Sequence[Prediction], gpus: Sequence[str]) -> tuple[TimeRow, ...]:
    first = {one.words: one for one in reversed(published)}
    sizes = [first[words] for words in dict.fromkeys(one.words for one in published)][:MOST_ROWS]
    found = {(one.words, one.gpu): one for one in published}

    def cell(size: Prediction, gpu: str) -> tuple[str, str]:
        one = found.get((size.words, gpu))
        return (timing.duration(one.time_us), one.bound) if one else (timing.NONE, "")

    return tuple(
        TimeRow(words, tuple(cell(size, gpu) for gpu in gpus))
        for size, words in zip(sizes, timing.length_words(sizes), strict=True)
    )


def _beside_measured(check: CheckResult) -> list[tuple[Prediction, str]]:
    """Return the predictions for measured sizes, with the sizes' words from the other tables."""
    both = [one for one in check.predictions if timing.usable(one.time_us) and timing.usable(one.measured_us)]
    both = both[:MOST_ROWS]
    return list(zip(both, timing.size_words(both), strict=True))


def _compared_row(one: Prediction, words: str) -> ComparedRow:
    return ComparedRow(
        words, timing.duration(one.time_us), timing.duration(one.measured_us), _signed(_error(one)), _BOUND[one.bound]
    )


def _error(one: Prediction) -> float:
    return min(one.time_us / one.measured_us, _MOST_TIMES) - 1


def _signed(error: float) -> str:
    percent = round(100 * error)
    return f"{percent:+d}%" if percent else "0%"


def _median_words(rows: Sequence[Prediction]) -> str:
    if not rows:
        return ""
    return f"off by {round(100 * median(abs(_error(one)) for one in rows))}% in the median"
