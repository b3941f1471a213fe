"""Judge a speed check from the samples at every size: ratio, interval, share of the points."""

from __future__ import annotations

import gc
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import median as plain_median

import torch

from grader.exercise.cases import Case
from grader.exercise.formula import evaluate
from grader.exercise.model import Part
from grader.exercise.rules import SpeedBand
from grader.judge.failure import Failure
from grader.judge.unanswered import why_not_finished
from grader.phrases import counted
from grader.protocol.answers import Raised
from grader.protocol.baseline_messages import Gauged
from grader.protocol.requests import Recipe
from grader.protocol.trace import Trace
from grader.record.causes import Cause
from grader.record.speed import Baseline, Ceilings, Contender, GpuState, SizeTiming, Speed
from grader.sandbox.outcome import Unanswered
from grader.sandbox.pair import RecordedAnswer
from grader.sandbox.session import Session
from grader.speed import verify
from grader.speed.baseline_process import BaselineProcess
from grader.speed.baselines import FAMILIES, title_of
from grader.speed.estimate import Interval, geometric_mean, median, ratio_of_medians, share
from grader.speed.lineup import Lineup, candidates, lineup, smallest
from grader.speed.monitor import read_throughout
from grader.speed.roofline import RooflineWork
from grader.speed.rounds import Exposed, NotCapturable, Rounds, Samples, TimedCase, TimingSample, Untimed
from grader.speed.tuned import tuned_tables
from grader.speed.verify import CannotBeTimed
from grader.text import clean
from grader.timeline import spent

# A ratio is known well enough when its interval reaches half a per cent to either side, or leaves so small a share of
# the size's points open.
_NARROW, _LITTLE_DOUBT = 0.005, 0.02
_LEAST_ROUNDS, _MOST_ROUNDS = 6, 400
# Short calls vary more: they need so many rounds and so narrow an interval, or certainty about the points after so many
# rounds.
_BRIEF_US, _BRIEF_ROUNDS, _BRIEF_NARROW, _BRIEF_CERTAIN = 200.0, 16, 0.012, 40
_SIZE_BUDGET_S = 1.5
# Where the interval leaves more than this share of the points open, the size is not judged.
_MOST_DOUBT = 0.15
# In shorter calls, the time in which two processes reach the GPU shows in the ratio.
_LEAST_US = 10.0
# Cover: many times the L2 cache, and long enough for Python to enqueue a call behind it.
_COVER_L2, _LEAST_COVER_BYTES = 16, 1536 << 20
# Inputs, outputs, and the truth in float64 with its variants.
_MEMORY_FACTOR = 12
# A baseline that is only shown and takes this long is not timed at sizes with more work.
_SLOW_US = 2e5
# The seed of the call that shows whether a baseline can run.
_TRIAL_SEED = 0
# The grader's own clock is coarse: it contradicts the events only if it sees so much more time than they do.
_OUTSIDE_SHARE, _OUTSIDE_US = 0.5, 2000.0
# It does so only after so many rounds: its median over 6 varies by half a millisecond, and the first rounds take
# longest.
_OUTSIDE_ROUNDS = 32

# The result of recording a case's call on decoys: its traces, or why there are none.
Traced = tuple[RecordedAnswer, ...] | Raised | Unanswered


@dataclass(frozen=True)
class Verdict:
    """The result of a speed check: a failure, or the share of the points earned; and all that was measured."""

    speed: Speed | None
    failure: Failure | None = None
    share: float = 0.0
    undecided: str = ""


@dataclass(frozen=True)
class _Clocks:
    """The submission's time by the grader's own clock, its possible error, and the excess beyond it.

    exceeds: the time lies beyond; hidden_us: how much of it is certain, as round trips vary.
    """

    outside_us: float
    off_us: float
    exceeds: bool
    hidden_us: float


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Keep this process from disturbing the clock: no pool of torch threads that spin, no garbage collector."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        torch.set_num_threads(threads)


@dataclass
class Suite:
    """A part's speed check on this machine.

    traced: the submission's recorded calls at each size; its process has ended. slow_baselines: those that take
    part although they compile for seconds.
    """

    part: Part
    band: SpeedBand
    traced: Mapping[Case, Traced]
    replayer: Session
    baseline_process: BaselineProcess
    gauged: Gauged
    uuid: str
    path: str
    slow_baselines: Collection[str] = ()
    _missing: dict[str, str] = field(default_factory=dict)
    _fallback: str = ""
    # The least work, in floating-point operations, at which a baseline beside was slow.
    _slow_from: dict[str, float] = field(default_factory=dict)

    def judge(self) -> Verdict:
        """Time every size. This grader must hold the GPU alone meanwhile (grader.speed.lock)."""
        chosen = self._choose_lineup()
        self._missing = dict(chosen.missing)
        if not chosen.baseline:
            return Verdict(self._make_speed([]), undecided=chosen.note)
        self._fallback = chosen.note
        self.band = chosen.apply(self.band)
        if unrecordable := self._first_unrecordable():
            return Verdict(self._make_speed([]), undecided=f"what is timed could not be recorded: {unrecordable}")
        sizes: list[SizeTiming] = []
        with read_throughout(self.uuid) as readings, _undisturbed():
            try:
                for case in self._cases():
                    with spent(f"time {self.part.name} {case.words()}"):
                        sizes.append(self._time_size(case))
            except CannotBeTimed as refused:
                return Verdict(self._make_speed(sizes, readings.state()), refused.failure)
            except Untimed as untimed:
                speed = self._make_speed(sizes, readings.state())
                return Verdict(speed, undecided=f"what is timed could not be replayed: {untimed}")
        speed = self._make_speed(sizes, readings.state())
        if not any(size.judged for size in sizes):
            # The reason why the longest size is not judged holds for the others too.
            reasons = [size.reason for size in sorted(sizes, key=lambda size: size.floor_us)]
            why = reasons[-1] if reasons else "each needs more memory than this GPU has"
            return Verdict(speed, undecided=f"no size could be judged: {why}")
        return self._score(speed)

    def _score(self, speed: Speed) -> Verdict:
        judged = [size for size in speed.sizes if size.judged]
        earned = sum(size.share for size in judged) / len(judged)
        return Verdict(speed, None if earned else _too_slow(speed, len(judged)), earned)

    def _cases(self) -> list[Case]:
        """Return the sizes that this GPU has memory for."""
        return [case for case in self.band.suite.named_cases if fits(self.band, case, self.gauged)]

    def _first_unrecordable(self) -> str:
        """Return the name and line of the first thing that could not be recorded; '' if there is none."""
        for traced in self.traced.values():
            for call in traced if isinstance(traced, tuple) else ():
                if call.unrecordable:
                    return f"{call.unrecordable[0].name} (line {call.unrecordable[0].line})"
        return ""

    @property
    def _cover_bytes(self) -> int:
        return min(max(_LEAST_COVER_BYTES, _COVER_L2 * self.gauged.l2_bytes), self.gauged.memory_bytes // 16)

    def _choose_lineup(self) -> Lineup:
        """Return the baselines that take part, tried on the smallest size."""
        recipe = Recipe(self.part.name, dict(smallest(self.band)), _TRIAL_SEED)
        missing = self.baseline_process.missing(recipe, candidates(self.band))
        return lineup(self.band, missing, slow=self.slow_baselines)

    def _time_size(self, case: Case) -> SizeTiming:
        traces = self._traces(case)
        try:
            return self._time_case(TimedCase(self.part, case, "stream", self._cover_bytes, traces))
        except Exposed:
            # Launches that take longer than the cover are timed without the host.
            try:
                return self._time_case(TimedCase(self.part, case, "graph", self._cover_bytes, traces))
            except NotCapturable:
                return self._time_case(TimedCase(self.part, case, "stream", self._cover_bytes, traces), hidden=False)

    def _traces(self, case: Case) -> tuple[RecordedAnswer, ...]:
        """Return the submission's recorded calls at one size. Raises CannotBeTimed if they cannot be timed."""
        traced = self.traced[case]
        if not isinstance(traced, tuple):
            raise CannotBeTimed(why_not_finished(traced, self.path))
        if outside_work := [note.name for call in traced for note in call.outside_work]:
            raise CannotBeTimed(verify.computed_failure(case, outside_work))
        if not traced[-1].kernels:
            raise CannotBeTimed(verify.no_launch_failure(case))
        if name := _returned_argument(traced[-1].trace):
            raise CannotBeTimed(verify.aliased_failure(case, name))
        return traced

    def _time_case(self, timed: TimedCase, *, hidden: bool = True) -> SizeTiming:
        rounds = self._rounds(timed)
        samples = rounds.run(
            self._is_settled, least=_LEAST_ROUNDS, most=_MOST_ROUNDS, budget_s=_SIZE_BUDGET_S, hidden=hidden
        )
        for name, why in samples.dropped.items():
            self._missing[name] = why
        work = evaluate(self.band.flops, timed.case)
        for name, taken in samples.baselines.items():
            if median_device_us(taken) > _SLOW_US:
                self._slow_from[name] = min(work, self._slow_from.get(name, work))
        return self._size_timing(timed, samples)

    def _rounds(self, timed: TimedCase) -> Rounds:
        running = [name for name, why in self._missing.items() if not why]
        work = evaluate(self.band.flops, timed.case)

        def can_take_part(name: str) -> bool:
            slow_from = self._slow_from.get(name, math.inf)
            # What compiles for itself, or on streams of its own, is not captured as a graph.
            return work <= slow_from and not (timed.method == "graph" and FAMILIES[name].slow)

        return Rounds(
            timed=timed,
            replayer=self.replayer,
            baseline_process=self.baseline_process,
            path=self.path,
            baseline=self.band.baseline,
            beside=tuple(name for name in running if name != self.band.baseline and can_take_part(name)),
            witness=self._witness(),
        )

    def _witness(self) -> str | None:
        """Return the first baseline that runs, computes what the part asks for, and does not compile for seconds."""
        running = (name for name, why in self._missing.items() if not why)
        return next((name for name in running if FAMILIES[name].computes and not FAMILIES[name].slow), None)

    def _is_settled(self, samples: Samples) -> bool:
        """Return whether more rounds would change nothing."""
        base_us = median_device_us(samples.baselines[self.band.baseline])
        if base_us < _LEAST_US:
            return True
        if len(samples.submission) < _OUTSIDE_ROUNDS and self._clocks(samples).exceeds:
            return False
        ratio, rounds = _ratio(samples.baselines[self.band.baseline], samples.submission), len(samples.submission)
        is_certain = self._open_share(ratio) <= _LITTLE_DOUBT
        if base_us < _BRIEF_US and (rounds < _BRIEF_ROUNDS or ratio.half_width > _BRIEF_NARROW):
            return is_certain and rounds >= _BRIEF_CERTAIN
        return is_certain or ratio.half_width <= _NARROW

    def _open_share(self, ratio: Interval) -> float:
        """Return the share of the points that a ratio's interval leaves open."""
        worth = [share(end, self.band.floor, self.band.full) for end in (ratio.low, ratio.high)]
        return worth[1] - worth[0]

    def _clocks(self, samples: Samples) -> _Clocks:
        """Compare the grader's own clock with the events."""
        claimed = median_device_us(samples.submission)
        # A baseline that computes something else has another output to sum, and is no comparison.
        witness = samples.baselines.get(self._witness() or "", [])
        off_us = max(_OUTSIDE_SHARE * median_device_us(samples.baselines[self.band.baseline]), _OUTSIDE_US)
        if not witness:
            return _Clocks(claimed, off_us, exceeds=False, hidden_us=0.0)
        own, usual = _around(samples.submission), _around(witness)
        more = own.value - usual.value
        return _Clocks(claimed + more, off_us, more > off_us, max(0.0, own.low - usual.high - off_us))

    def _size_timing(self, timed: TimedCase, samples: Samples) -> SizeTiming:
        band, gauged, case = self.band, self.gauged, timed.case
        base = samples.baselines[band.baseline]
        work = RooflineWork(evaluate(band.bytes, case), evaluate(band.flops, case), gauged, str(case.get("dtype", "")))
        claimed = median_device_us(samples.submission)
        if claimed < work.floor_us:
            raise CannotBeTimed(verify.impossible_failure(case, claimed, work.floor_us))
        clocks = self._clocks(samples)
        # Time that only the grader's clock saw is part of the call.
        hidden_us = clocks.hidden_us
        own = [replace(timing, device_us=timing.device_us + hidden_us) for timing in samples.submission]
        samples = replace(samples, submission=own)
        rows = {"submission": own, **samples.baselines}
        ratio = _ratio(base, own)
        reason = self._why_not_judged(samples, ratio)
        return SizeTiming(
            case=dict(case),
            words=case.words(),
            method=timed.method,
            judged=not reason,
            reason=reason,
            share=share(ratio.value if self._open_share(ratio) <= _MOST_DOUBT else ratio.low, band.floor, band.full),
            rounds=len(samples.submission),
            outside_us=_rounded(clocks.outside_us),
            clock_us=_rounded(clocks.off_us),
            floor_us=_rounded(work.floor_us),
            bound=work.bound,
            contenders=tuple(_contender(name, taken, base, work) for name, taken in rows.items()),
            notes=(verify.hidden_note(claimed, hidden_us),) if hidden_us else (),
            tuned=tuned_tables(timed.traces[-1].trace, samples.choices) if timed.traces else (),
            kernels=tuple(clean(name, 80) for name in timed.traces[-1].kernels) if timed.traces else (),
        )

    def _why_not_judged(self, samples: Samples, ratio: Interval) -> str:
        base = [timing.device_us for timing in samples.baselines[self.band.baseline]]
        base_us = median(base).value
        if base_us < _LEAST_US:
            return f"too short: the baseline takes {base_us:.1f} µs, and {_LEAST_US:.0f} are needed"
        # The doubt from the machine's noise alone. A submission that varies by itself is judged all the
        # same, by its slower end.
        alone = ratio_of_medians(base, [median([one.device_us for one in samples.submission]).value] * len(base))
        if self._open_share(ratio) > _MOST_DOUBT and self._open_share(alone) > _MOST_DOUBT:
            return f"too noisy: the ratio lies between {ratio.low:.2f} and {ratio.high:.2f}"
        return ""

    def _make_speed(self, sizes: list[SizeTiming], gpu: GpuState | None = None) -> Speed:
        judged = [size.submission for size in sizes if size.judged]
        mean = (
            geometric_mean([Interval(one.ratio, one.ratio_low, one.ratio_high) for one in judged]) if judged else None
        )
        return Speed(
            baseline=self.band.baseline,
            floor=self.band.floor,
            full=self.band.full,
            ratio=_rounded(mean.value) if mean else "nan",
            ratio_low=_rounded(mean.low) if mean else "nan",
            ratio_high=_rounded(mean.high) if mean else "nan",
            sizes=tuple(sizes),
            baselines=tuple(Baseline(name, title_of(name), why) for name, why in self._missing.items()),
            note=self.band.note,
            fallback=self._fallback,
            curves=self.band.curves,
            ceilings=Ceilings(self.gauged.copy_tbps, self.gauged.read_tbps, self.gauged.tflops),
            gpu=gpu,
        )


def _returned_argument(trace: Trace) -> str:
    """Return the name of an argument in whose memory an output lies, or ''."""
    names = {number: name for name, number in trace.arguments.items()}
    storages = (trace.windows[output.window].storage for output in trace.outputs if output.window >= 0)
    return next((names[storage] for storage in storages if storage in names), "")


def fits(band: SpeedBand, case: Case, gauged: Gauged) -> bool:
    """Return whether a GPU has memory for a size: inputs, outputs, and the truth with its variants."""
    return evaluate(band.bytes, case) * _MEMORY_FACTOR <= gauged.memory_bytes


def median_device_us(samples: Sequence[TimingSample]) -> float:
    """Return the median of the times on the device, in microseconds."""
    return plain_median(timing.device_us for timing in samples)


def _around(samples: Sequence[TimingSample]) -> Interval:
    """Return the time by the grader's own clock, less that on the device, in microseconds."""
    return median([timing.outside_us - timing.device_us for timing in samples])


def _ratio(base: Sequence[TimingSample], own: Sequence[TimingSample]) -> Interval:
    """Return the baseline's time over another's, pair by pair."""
    count = min(len(base), len(own))
    above, below = ([timing.device_us for timing in taken[:count]] for taken in (base, own))
    return ratio_of_medians(above, below)


def _contender(name: str, taken: Sequence[TimingSample], base: Sequence[TimingSample], work: RooflineWork) -> Contender:
    time, ratio = median([timing.device_us for timing in taken]), _ratio(base, taken)
    seconds = max(time.value, 1e-3) / 1e6
    return Contender(
        name=name,
        median_us=_rounded(time.value),
        low_us=_rounded(time.low),
        high_us=_rounded(time.high),
        ratio=_rounded(ratio.value),
        ratio_low=_rounded(ratio.low),
        ratio_high=_rounded(ratio.high),
        tbps=_rounded(work.nbytes / seconds / 1e12),
        tflops=_rounded(work.flops / seconds / 1e12),
        roofline_share=_rounded(max(work.memory_us, work.compute_us) / max(time.value, 1e-3)),
        peak_bytes=max((timing.peak_bytes for timing in taken), default=-1),
    )


def _rounded(value: float) -> float:
    """Round to five digits, more than any clock here knows."""
    return float(f"{value:.5g}")


def _too_slow(speed: Speed, judged: int) -> Failure:
    title = title_of(speed.baseline)
    return Failure(
        "fail",
        Cause(
            "too_slow",
            "Too slow for any of the points",
            f"Over {counted(judged, 'size')} it reaches {speed.ratio_low:.2f} to {speed.ratio_high:.2f} of the speed "
            f"of {title}; points begin above {speed.floor:g}.",
            "What does the kernel wait for: memory, arithmetic, or launches? The roofline on the card shows how far "
            "each of them is.",
            f"more than {speed.floor:g}",
            f"{speed.ratio:.3f}",
        ),
    )
