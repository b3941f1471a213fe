"""Describe a speed check with the same words for all renderers: headline, sizes, and baselines beside it.

Numbers may come from a file. A number that is not finite, or not above zero where it must be, becomes a dash.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from grader.exercise.curves import Curves
from grader.phrases import counted, in_percent
from grader.record.json_numbers import Number
from grader.record.speed import Baseline, Contender, GpuState, SizeTiming, Span, Speed
from grader.report import view

OWN = "submission"
MOST_SIZES = 40
MOST_CONTENDERS = 8
# Of one size.
MOST_NOTES = 4
NONE = "–"


def usable(value: Number) -> float | None:
    """Return the number if it is finite and above zero, as a measured time, rate or ratio must be, else None."""
    if isinstance(value, str) or not math.isfinite(value) or value <= 0:
        return None
    return float(value)


def own(size: SizeTiming) -> Contender | None:
    """Return the submission's row, or None if a record from a file lacks it."""
    return next((one for one in size.contenders if one.name == OWN), None)


def contender(size: SizeTiming, name: str) -> Contender | None:
    """Return the row of that name."""
    return next((one for one in size.contenders if one.name == name), None)


def shown_sizes(speed: Speed) -> tuple[SizeTiming, ...]:
    """Return as many sizes as a report has room for."""
    return speed.sizes[:MOST_SIZES]


def judged_sizes(speed: Speed) -> list[SizeTiming]:
    """Return the sizes that count."""
    return [size for size in speed.sizes if size.judged]


# -- numbers ---------------------------------------------------------------------------------------------------------


def three_digits(value: Number) -> str:
    """Return three significant digits, without an exponent if that is short: 0.0312, 2.61, 609, 1250."""
    known = usable(value)
    if known is None:
        return NONE
    if not 1e-3 <= known < 1e5:
        return f"{known:.2e}"
    # 0.9997 has three digits as 1.00.
    exponent = math.floor(math.log10(float(f"{known:.3g}")))
    return f"{known:.{max(0, 2 - exponent)}f}"


def duration(microseconds: Number) -> str:
    """Return a time in the unit that suits it."""
    known = usable(microseconds)
    if known is None:
        return NONE
    for unit, scale in (("µs", 1.0), ("ms", 1e3)):
        # 999.7 would round to a thousand of the smaller unit.
        if known < 999.5 * scale:
            return f"{three_digits(known / scale)} {unit}"
    return f"{three_digits(known / 1e6)} s"


def durations(low: Number, high: Number) -> str:
    """Return a range of times, with one unit if both share it: "218 to 220 µs"."""
    first, last = duration(low), duration(high)
    number, _, unit = first.partition(" ")
    return f"{number if last.endswith(f' {unit}') else first} to {last}"


def span(values: Iterable[float]) -> str:
    """Return the least and the greatest value with three digits each, or one number if they are equal."""
    values = list(values)
    low, high = three_digits(min(values)), three_digits(max(values))
    return low if low == high else f"{low} to {high}"


def times(value: Number, *limits: float) -> str:
    """Return a ratio with two decimals, or with more if it would seem to be on the other side of a limit."""
    known = usable(value)
    if known is None:
        return NONE
    sided = (
        digits for digits in (2, 3) if all((round(known, digits) >= limit) == (known >= limit) for limit in limits)
    )
    return _decimals(known, next(sided, 4))


def interval(ratio: Number, low: Number, high: Number, digits: int) -> str:
    """Return a ratio with its interval: "0.97 [0.96, 0.98]"."""
    if usable(ratio) is None:
        return NONE
    ends = [_decimals(end, digits) if (end := usable(value)) else NONE for value in (low, high)]
    return f"{_decimals(float(ratio), digits)} [{', '.join(ends)}]"


def digits_for(speed: Speed) -> int:
    """Return the decimals that a table's ratios need: two, or three if an interval is narrower than two can show."""
    rows = [one for size in shown_sizes(speed) if (one := own(size)) and one.ratio_low != one.ratio_high]
    return 3 if any(times(one.ratio_low) == times(one.ratio_high) for one in rows) else 2


def _decimals(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if 0.1 <= value < 100 else three_digits(value)


def percent(share: float) -> str:
    """Return a share as a whole percentage."""
    return in_percent(share) if math.isfinite(share) and share < 100 else NONE


def band_limits(speed: Speed) -> tuple[float, float]:
    """Return the ratios between which points are earned."""
    return speed.floor, speed.full


# -- sizes -----------------------------------------------------------------------------------------------------------


class Sized(Protocol):
    """Anything that belongs to one case."""

    @property
    def case(self) -> dict[str, int | float | bool | str]:
        """Return the case as values."""

    @property
    def words(self) -> str:
        """Return the case in words."""


def size_words(sizes: Iterable[Sized], curves: Curves | None = None) -> tuple[str, ...]:
    """Return each size in as few words as tell it from the others: "M=16, N=K=4096".

    With curves, their axes come first. Other axes are named only if those do not tell two sizes apart.
    """
    sizes = tuple(sizes)
    varying = _axes(sizes, varying=True)
    first = [name for name in (*curves.apart, curves.over) if name in varying] if curves else []

    def names(size: Sized) -> list[str]:
        return _telling(size, sizes, first, varying) if first else varying

    return tuple(
        (case_words(size, names(size)) if varying else "") or view.line(size.words, 60) or NONE for size in sizes
    )


def timed_words(sizes: tuple[SizeTiming, ...], curves: Curves | None) -> tuple[str, ...]:
    """Return the words of each timing's size. One size may also have been timed as a CUDA graph."""
    by_graph = {"graph": "graph, ", "stream": ""}
    words = size_words(sizes, curves)
    return tuple(by_graph[size.method] + of_size for size, of_size in zip(sizes, words, strict=True))


def _telling(size: Sized, sizes: tuple[Sized, ...], first: list[str], others: list[str]) -> list[str]:
    """Return the axes in `first`, and those others that tell the size from sizes with the same values there."""
    chosen = list(first)
    for name in others:
        alike = [one for one in sizes if all(one.case.get(axis) == size.case.get(axis) for axis in chosen)]
        if any(one.case.get(name) != size.case.get(name) for one in alike):
            chosen.append(name)
    return chosen


def length_words(sizes: Iterable[Sized]) -> tuple[str, ...]:
    """Return each size as its lengths, its type, and other differing axes: "M=N=K=8192, float16"."""
    sizes = tuple(sizes)
    varying = _axes(sizes, varying=True)

    def names(size: Sized) -> list[str]:
        return [name for name, value in size.case.items() if name in varying or name == "dtype" or _is_length(value)]

    return tuple(case_words(size, names(size)) or view.line(size.words, 60) or NONE for size in sizes)


def _is_length(value: float | str) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def common_words(sizes: Iterable[Sized]) -> str:
    """Return the values that all sizes share: "bfloat16, normal"."""
    sizes = tuple(sizes)
    return case_words(sizes[0], _axes(sizes, varying=False)) if len(sizes) > 1 else ""


def _axes(sizes: tuple[Sized, ...], *, varying: bool) -> list[str]:
    names = dict.fromkeys(name for size in sizes for name in size.case)
    return [name for name in names if (len({repr(size.case.get(name)) for size in sizes}) > 1) == varying]


def case_words(size: Sized, names: Iterable[str]) -> str:
    """Return the case's values of these axes, as words. Axes of equal length share one entry."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name in names:
        if name in size.case:
            said = view.line(name, 20)
            value = size.case[name]
            if isinstance(value, bool | str):
                groups[name, ""] = [value_words(name, value)]
            else:
                # A batch of 1 and a switch at 1 have no length in common.
                together = "" if value > 1 else name
                groups.setdefault((together, value_words(name, value)), []).append(said)
    return ", ".join("=".join([*said, value] if value else said) for (_, value), said in groups.items())


def value_words(name: str, value: float | str) -> str:
    """Return one value of a case without the axis's name. A flag keeps its name."""
    if isinstance(value, bool):
        return view.line(name, 20) if value else f"not {view.line(name, 20)}"
    if isinstance(value, str):
        return view.line(value, 30)
    # Nobody reads 67108864.
    if isinstance(value, int) and value >= 1 << 20 and value & (value - 1) == 0:
        return f"2^{value.bit_length() - 1}"
    return view.line(str(value), 24)


def rate(size: SizeTiming, one: Contender) -> str:
    """Return the speed in the unit of what bounds this size (TB/s or TFLOP/s), without the unit."""
    return three_digits(one.tbps if size.bound == "memory" else one.tflops)


def unit(size: SizeTiming) -> str:
    """Return the unit of `rate`."""
    return "TB/s" if size.bound == "memory" else "TFLOP/s"


# -- sentences -------------------------------------------------------------------------------------------------------


def title_of(speed: Speed, name: str) -> str:
    """Return a contender's title."""
    title = next((one.title for one in speed.baselines if one.name == name), "")
    return view.line(title, 60) or view.line(name, 60).replace("_", " ") or NONE


def headline(speed: Speed) -> str:
    """Return the result as one sentence: ratio, baseline, interval, number of sizes, and the bar."""
    at_each = " at each" if judged_sizes(speed) else ""
    return f"{verdict(speed)}{certainty(speed)}; {bar(speed)}{at_each}"


def verdict(speed: Speed) -> str:
    """Return the speed relative to the baseline, as words."""
    title = title_of(speed, speed.baseline)
    return f"{ratio_words(speed)}× the speed of {title}" if usable(speed.ratio) else f"no ratio to {title}"


def ratio_words(speed: Speed) -> str:
    """Return the ratio alone."""
    return times(speed.ratio, *band_limits(speed))


def certainty(speed: Speed) -> str:
    """Return the text behind the ratio: its interval, and the number of sizes."""
    judged = len(judged_sizes(speed))
    over = f" over {counted(judged, 'judged size')}" if judged else ""
    if not usable(speed.ratio):
        return over or ": no size could be judged"
    if not (usable(speed.ratio_low) and usable(speed.ratio_high)):
        return over
    low, high = (times(end, *band_limits(speed)) for end in (speed.ratio_low, speed.ratio_high))
    if low == high and speed.ratio_low != speed.ratio_high:
        low, high = (_decimals(float(end), 3) for end in (speed.ratio_low, speed.ratio_high))
    return f", 95% interval {low} to {high}{over}"


def bar(speed: Speed) -> str:
    """Return the ratio that full points ask of each size. Below the band, also the ratio where points begin."""
    full = f"full marks from {times(speed.full)}"
    ratio = usable(speed.ratio)
    if ratio is not None and ratio <= speed.floor:
        return f"points begin above {times(speed.floor)}, {full}"
    return full


@dataclass(frozen=True)
class Beside:
    """Another baseline beside the band's own: the submission is `ratio` times as fast, over those sizes."""

    title: str
    ratio: float
    sizes: int

    @property
    def words(self) -> str:
        """Return the ratio as in the headline."""
        return f"{times(self.ratio)}× the speed of {self.title}"


def beside(speed: Speed) -> tuple[Beside, ...]:
    """Return the other baselines with the geometric mean of their time over the submission's.

    The mean is over the judged sizes if there are any.
    """
    sizes = judged_sizes(speed) or list(speed.sizes)
    found = []
    for name in baseline_names(speed):
        logs = [_log_ratio(own(size), contender(size, name)) for size in sizes]
        known = [log for log in logs if log is not None]
        if known and name != speed.baseline:
            # No float is larger than e^709, whatever a file says.
            mean = max(-600.0, min(600.0, sum(known) / len(known)))
            found.append(Beside(title_of(speed, name), math.exp(mean), len(known)))
    return tuple(found)


def _log_ratio(submission: Contender | None, other: Contender | None) -> float | None:
    mine, theirs = (usable(one.median_us) if one else None for one in (submission, other))
    return math.log(theirs) - math.log(mine) if mine and theirs else None


def baseline_names(speed: Speed) -> list[str]:
    """Return the baselines that ran, the band's own first, then in the record's order: as many as have room."""
    return _all_baseline_names(speed)[:MOST_CONTENDERS]


def _all_baseline_names(speed: Speed) -> list[str]:
    ran = dict.fromkeys(one.name for size in speed.sizes for one in size.contenders if one.name != OWN)
    listed = [one.name for one in speed.baselines if one.name in ran]
    names = dict.fromkeys([*([speed.baseline] if speed.baseline in ran else []), *listed, *ran])
    return list(names)


def absent(speed: Speed) -> tuple[Baseline, ...]:
    """Return the baselines that could not run here: as many as have room."""
    return _all_absent(speed)[:MOST_CONTENDERS]


def _all_absent(speed: Speed) -> tuple[Baseline, ...]:
    return tuple(one for one in speed.baselines if one.missing)


def absent_by_reason(speed: Speed) -> dict[str, list[str]]:
    """Return the titles of the baselines that could not run here, by reason."""
    found: dict[str, list[str]] = {}
    for one in absent(speed):
        found.setdefault(one.missing, []).append(title_of(speed, one.name))
    return found


@dataclass(frozen=True)
class Remark:
    """A remark about some sizes; `sizes` is empty if it holds for all."""

    kind: Literal["not judged", "undecided", "note", "cut"]
    text: str
    sizes: tuple[str, ...]

    @property
    def label(self) -> str:
        """Return the kind of remark and its sizes, in a few words."""
        if self.kind == "cut":
            return "Left out"
        kind = {"not judged": "Shown, not judged", "undecided": "Undecided", "note": "Finding"}[self.kind]
        return kind + in_brackets(self.sizes)


def in_brackets(sizes: Sequence[str]) -> str:
    """Return the sizes that a remark holds for, the first few by name; '' if it holds for all."""
    if not sizes:
        return " (all sizes)"
    more = [f"{len(sizes) - 4} more"] if len(sizes) > 5 else []
    return f" ({'; '.join([*sizes[: 4 if more else 5], *more])})"


def remarks(speed: Speed) -> tuple[Remark, ...]:
    """Return the reasons why sizes do not count, findings about the measurement, and what a report leaves out.

    Each remark appears once, with its sizes.
    """
    sizes = shown_sizes(speed)
    groups: dict[tuple[Literal["not judged", "undecided", "note"], str], list[str]] = {}
    for size, words in zip(sizes, timed_words(sizes, speed.curves), strict=True):
        if not size.judged or size.reason:
            kind: Literal["not judged", "undecided"] = "undecided" if size.judged else "not judged"
            groups.setdefault((kind, view.line(size.reason, 240) or "no reason given"), []).append(words)
        for note in dict.fromkeys(view.line(note, 240) for note in size.notes[:MOST_NOTES]):
            groups.setdefault(("note", note), []).append(words)
    found = (
        Remark(kind, text, () if len(words) == len(sizes) else tuple(words)) for (kind, text), words in groups.items()
    )
    return (*found, *_left_out(speed))


def _left_out(speed: Speed) -> Iterator[Remark]:
    """Yield the number of contenders and notes that no report has room for; the sizes are counted below their table."""
    contenders = (_all_baseline_names(speed), _all_absent(speed))
    beyond = sum(max(0, len(names) - MOST_CONTENDERS) for names in contenders)
    notes = sum(max(0, len(size.notes) - MOST_NOTES) for size in shown_sizes(speed))
    said = counted(beyond, "more baseline"), counted(notes, "more note on a size", "more notes on sizes")
    if cut := [words for many, words in zip((beyond, notes), said, strict=True) if many]:
        yield Remark("cut", f"the JSON record has {' and '.join(cut)}", ())


def method_words(speed: Speed) -> str:
    """Return the sizes timed as CUDA-graph replays, with the reason; '' if there are none."""
    sizes = shown_sizes(speed)
    replayed = [
        words for size, words in zip(sizes, size_words(sizes, speed.curves), strict=True) if size.method == "graph"
    ]
    if not replayed:
        return ""
    which = "at every size" if len(replayed) == len(sizes) else f"at {'; '.join(replayed)}"
    return f"timed as CUDA-graph replay {which}: launch overhead cannot be hidden there"


def gpu_words(gpu: GpuState) -> str:
    """Return clocks, temperature and power, and whether the driver slowed the GPU down."""
    readings = (
        ("SM", gpu.sm_mhz, "MHz"),
        ("memory", gpu.memory_mhz, "MHz"),
        ("", gpu.temperature_c, "°C"),
        ("", gpu.power_w, "W"),
    )
    said = ", ".join(f"{name} {_readings(span)} {what}".strip() for name, span, what in readings)
    reasons = ", ".join(view.line(reason, 60) for reason in gpu.throttled[:6])
    return f"{said}; {f'slowed down by: {reasons}' if reasons else 'not slowed down'}"


def _readings(span: Span) -> str:
    low, high = (f"{value:.5g}" if math.isfinite(value) else NONE for value in (span.low, span.high))
    return low if low == high else f"{low} to {high}"
