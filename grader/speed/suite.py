"""From the laps at every size to a check's verdict: time of record, ratio, share of the points."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch

from grader.judge.causes import Failure
from grader.model.cases import Case
from grader.model.exercise import Part, SpeedBand, UsesKernels
from grader.model.formula import evaluate
from grader.protocol.messages import Gauged, Recipe
from grader.record import Baseline, Cause, Ceilings, Contender, GpuState, SizeTiming, Speed
from grader.sandbox.session import Session
from grader.speed import verify
from grader.speed.anchor import Anchor
from grader.speed.baselines import FAMILIES, title_of
from grader.speed.clock import CLOCK_OFFSET_US, CLOCK_SHARE, Lap, Recorded, foretold_us, middle, time_of_record
from grader.speed.estimate import Interval, geometric_mean, median, ratio_of_medians, share
from grader.speed.lineup import Lineup, asked, lineup, smallest
from grader.speed.monitor import watching
from grader.speed.race import Course, Laps, Method, NotCapturable, Race, alone, heat
from grader.speed.roofline import Work
from grader.speed.verify import Refused

# A ratio is known well enough when its interval reaches one per cent to either side.
_NARROW = 0.01
_LEAST_ROUNDS, _MOST_ROUNDS = 20, 400
_SIZE_BUDGET_S = 3.0
# What is shown beside, never judged, needs no more.
_SHOWN_ROUNDS = 10
# Where the interval leaves more than this share of the points open, the size is not judged.
_MOST_DOUBT = 0.15
# Below this Python and the launches, which are watched, take as long as the kernels: the size is timed as a CUDA graph
# as well.
_LAUNCH_BOUND_US = 200.0
# Cover: many times the L2 cache, and long enough for Python to enqueue a call behind it.
_COVER_L2, _LEAST_COVER_BYTES = 16, 1536 << 20
# Inputs, outputs, and the truth in float64 with its variants.
_MEMORY_FACTOR = 12
# A baseline beside that takes this long is not tried at sizes with more work.
_SLOW_US = 2e5
# Noise that lasts for seconds goes away again: what the clock outside would know only nearly well enough is waited for.
_NEARLY = 1.5
# Of the call that tells whether a baseline can run.
_TRIAL_SEED = 0
# A baseline that is this much slower beside the submission than by itself was disturbed by it.
_SLOWED = 1.07


@dataclass(frozen=True)
class Verdict:
    """What a speed check comes to: a failure, or the share of the points earned; and all that was measured."""

    speed: Speed | None
    failure: Failure | None = None
    share: float = 0.0
    undecided: str = ""


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
    """A part's speed check on this machine. slow_baselines: whether those that compile for seconds take part."""

    part: Part
    band: SpeedBand
    session: Session
    anchor: Anchor
    gauged: Gauged
    uuid: str
    path: str
    slow_baselines: bool = False
    _missing: dict[str, str] = field(default_factory=dict)
    _fallback: str = ""
    # The least work, in floating-point operations, at which a baseline beside was slow.
    _slow_from: dict[str, float] = field(default_factory=dict)

    def judge(self) -> Verdict:
        """Time every size. The GPU must be ours alone meanwhile (grader.speed.lock)."""
        chosen = self._lineup()
        self._missing = dict(chosen.missing)
        if not chosen.baseline:
            return Verdict(self._speed([]), undecided=chosen.note)
        self._fallback = chosen.note
        band = self.band = chosen.applied(self.band)
        sizes: list[SizeTiming] = []
        with watching(self.uuid) as readings, _undisturbed():
            try:
                for case in band.suite.named:
                    sizes += self._size(case)
            except Refused as refused:
                return Verdict(self._speed(sizes, readings.state()), refused.failure)
        speed = self._speed(sizes, readings.state())
        judged = [size for size in sizes if size.judged]
        if not judged:
            # What keeps the longest one from being judged keeps the others too.
            reasons = [size.reason for size in sorted(sizes, key=lambda size: size.floor_us) if size.method == "stream"]
            why = reasons[-1] if reasons else "each needs more memory than this GPU has"
            return Verdict(speed, undecided=f"no size could be judged: {why}")
        return self._earned(speed)

    def _earned(self, speed: Speed) -> Verdict:
        judged = [size for size in speed.sizes if size.judged]
        earned = sum(size.share for size in judged) / len(judged)
        return Verdict(speed, None if earned else _too_slow(speed, len(judged)), earned)

    def confirm(self, verdict: Verdict) -> Verdict:
        """The verdict, with sizes whose baseline is faster by itself compared with that. Every process of the
        submission must have ended by now: what slowed the baseline, whoever it was, is worth nothing.
        """
        if verdict.speed is None or verdict.failure or verdict.undecided:
            return verdict
        with _undisturbed():
            sizes = [self._confirmed(size) if size.judged else size for size in verdict.speed.sizes]
        if sizes == list(verdict.speed.sizes):
            return verdict
        return self._earned(self._speed(sizes, verdict.speed.gpu))

    def _confirmed(self, size: SizeTiming) -> SizeTiming:
        """The size as it is; or, where the baseline was slower in turns with the submission by more than both intervals
        leave open, with the ratios to what it takes by itself.
        """
        beside = next(one for one in size.contenders if one.name == self.band.baseline)
        case = next(case for case in self.band.suite.named if dict(case) == size.case)
        course = Course(self.part, case, size.method, self._cover_bytes)
        for attempt in range(2):
            if attempt:
                # A GPU that has rested runs faster for a moment.
                heat(course, self.anchor, self.band.baseline)
            by_itself = median(alone(course, self.anchor, self.band.baseline))
            if beside.low_us <= _SLOWED * by_itself.high:
                return size
        factor = by_itself.value / beside.median_us
        contenders = tuple(_compared(one, factor) for one in size.contenders)
        ratio = next(one.ratio for one in contenders if one.name == "submission")
        note = verify.slowed(beside.median_us, by_itself.value)
        worth = min(size.share, share(ratio, self.band.floor, self.band.full))
        return replace(size, contenders=contenders, share=worth, notes=(*size.notes, note))

    @property
    def _cover_bytes(self) -> int:
        return min(max(_LEAST_COVER_BYTES, _COVER_L2 * self.gauged.l2_bytes), self.gauged.memory_bytes // 16)

    def _lineup(self) -> Lineup:
        """Who takes part, found out on the smallest size."""
        recipe = Recipe(self.part.name, dict(smallest(self.band)), _TRIAL_SEED)
        missing = self.anchor.missing(recipe, asked(self.band))
        return lineup(self.band, missing, slow=self.slow_baselines)

    def _size(self, case: Case) -> list[SizeTiming]:
        """The timings of one size: by stream, and by graph where launches would rule."""
        needed = evaluate(self.band.bytes, case) * _MEMORY_FACTOR
        if needed > self.gauged.memory_bytes:
            return []
        timing = self._timed(case, "stream")
        timings = [timing]
        base = next(one for one in timing.contenders if one.name == self.band.baseline)
        if base.median_us < _LAUNCH_BOUND_US and self.session.runs_on_gpu:
            try:
                timings.append(self._timed(case, "graph"))
            except NotCapturable:
                # The stream's figures stand for themselves.
                return timings
        return timings

    def _timed(self, case: Case, method: Method) -> SizeTiming:
        race = self._race(case, method)
        laps = race.run(self._known_well, least=_SHOWN_ROUNDS, most=_MOST_ROUNDS, budget_s=_SIZE_BUDGET_S)
        for name, why in laps.dropped.items():
            self._missing[name] = why
        work = evaluate(self.band.flops, case)
        for name, ran in laps.baselines.items():
            if middle(ran) > _SLOW_US:
                self._slow_from[name] = min(work, self._slow_from.get(name, work))
        return self._timing(case, method, laps)

    def _race(self, case: Case, method: Method) -> Race:
        running = [name for name, why in self._missing.items() if not why]
        rules = [check.rule for check in self.part.checks]
        work = evaluate(self.band.flops, case)

        def can_take_part(name: str) -> bool:
            slow_from = self._slow_from.get(name, math.inf)
            if method == "stream":
                return work <= slow_from
            # What compiles for itself, or on streams of its own, is not captured as a graph.
            return work < slow_from and not FAMILIES[name].slow

        return Race(
            course=Course(self.part, case, method, self._cover_bytes),
            session=self.session,
            anchor=self.anchor,
            path=self.path,
            baseline=self.band.baseline,
            beside=tuple(name for name in running if name != self.band.baseline and can_take_part(name)),
            witness=next((name for name in running if FAMILIES[name].computes and not FAMILIES[name].slow), None),
            allowed_operators=next((rule.allowed_operators for rule in rules if isinstance(rule, UsesKernels)), None),
        )

    def _known_well(self, laps: Laps, spent: float) -> bool:
        """Whether more rounds would change nothing; `spent` is the share of the time for this size that is over."""
        base = laps.baselines[self.band.baseline]
        if CLOCK_SHARE * middle(base) < 1.2 * CLOCK_OFFSET_US:
            # The clock outside will never know such a short time well enough: the size is shown and not judged.
            return True
        if len(base) < _LEAST_ROUNDS:
            return False
        record = time_of_record(laps.submission, base)
        if not record.known and foretold_us(record.clock_us, spent) > _NEARLY * CLOCK_SHARE * middle(base):
            return True
        ratio = ratio_of_medians([lap.device_us for lap in base], record.samples)
        sure = self._doubt(ratio) == 0 or ratio.half_width <= _NARROW
        # A machine that is slow for a moment is soon quick again; a submission whose clock lies stays a liar.
        return sure and record.known and not record.added_us

    def _doubt(self, ratio: Interval) -> float:
        """The share of the points that a ratio's interval leaves open."""
        worth = [share(end, self.band.floor, self.band.full) for end in (ratio.low, ratio.high)]
        return worth[1] - worth[0]

    def _timing(self, case: Case, method: Method, laps: Laps) -> SizeTiming:
        band, gauged = self.band, self.gauged
        base = laps.baselines[band.baseline]
        record = time_of_record(laps.submission, base)
        work = Work(evaluate(band.bytes, case), evaluate(band.flops, case), gauged, str(case.get("dtype", "")))
        ratio = ratio_of_medians([lap.device_us for lap in base], record.samples)
        time = median(record.samples)
        if time.value < work.floor_us:
            raise Refused(verify.impossible(case, time.value, work.floor_us))
        contenders = [_contender("submission", record.samples, base, work, _peak(laps.submission))]
        contenders += [
            _contender(name, [lap.device_us for lap in ran], base, work, _peak(ran))
            for name, ran in laps.baselines.items()
        ]
        # What the machine's noise alone leaves open. A submission that varies of its own accord is judged all the same,
        # by its slower end.
        alone = ratio_of_medians([lap.device_us for lap in base], [time.value] * len(base))
        reason = self._why_not_judged(method, ratio, alone, record, middle(base))
        return SizeTiming(
            case=dict(case),
            words=case.words(),
            method=method,
            judged=not reason,
            reason=reason,
            share=share(ratio.value if self._doubt(ratio) <= _MOST_DOUBT else ratio.low, band.floor, band.full),
            rounds=len(laps.submission),
            outside_us=_tidy(record.outside_us),
            clock_us=_tidy(record.clock_us),
            floor_us=_tidy(work.floor_us),
            bound=work.bound,
            contenders=tuple(contenders),
            notes=record.notes,
        )

    def _why_not_judged(
        self, method: Method, ratio: Interval, alone: Interval, record: Recorded, base_us: float
    ) -> str:
        if method == "graph":
            return "timed as a CUDA graph, beside the stream's figures"
        if not record.known:
            return f"too short: the clock outside knows {base_us:.0f} µs to ±{record.clock_us:.0f} µs"
        if self._doubt(ratio) > _MOST_DOUBT and self._doubt(alone) > _MOST_DOUBT:
            return f"too noisy: the ratio lies between {ratio.low:.2f} and {ratio.high:.2f}"
        return ""

    def _speed(self, sizes: list[SizeTiming], gpu: GpuState | None = None) -> Speed:
        judged = [size.submission for size in sizes if size.judged]
        mean = (
            geometric_mean([Interval(one.ratio, one.ratio_low, one.ratio_high) for one in judged]) if judged else None
        )
        return Speed(
            baseline=self.band.baseline,
            floor=self.band.floor,
            full=self.band.full,
            ratio=_tidy(mean.value) if mean else "nan",
            ratio_low=_tidy(mean.low) if mean else "nan",
            ratio_high=_tidy(mean.high) if mean else "nan",
            sizes=tuple(sizes),
            baselines=tuple(Baseline(name, title_of(name), why) for name, why in self._missing.items()),
            note=self.band.note,
            fallback=self._fallback,
            curves=self.band.curves,
            ceilings=Ceilings(self.gauged.copy_tbps, self.gauged.read_tbps, self.gauged.tflops),
            gpu=gpu,
        )


def _peak(laps: list[Lap]) -> int:
    """The most memory that any of the calls held beyond its inputs."""
    return max((lap.peak_bytes for lap in laps), default=-1)


def _contender(name: str, samples: list[float], base: list[Lap], work: Work, peak_bytes: int) -> Contender:
    time = median(samples)
    ratio = ratio_of_medians([lap.device_us for lap in base[: len(samples)]], samples)
    seconds = max(time.value, 1e-3) / 1e6
    return Contender(
        name=name,
        median_us=_tidy(time.value),
        low_us=_tidy(time.low),
        high_us=_tidy(time.high),
        ratio=_tidy(ratio.value),
        ratio_low=_tidy(ratio.low),
        ratio_high=_tidy(ratio.high),
        tbps=_tidy(work.nbytes / seconds / 1e12),
        tflops=_tidy(work.flops / seconds / 1e12),
        roofline_share=_tidy(max(work.memory_us, work.compute_us) / max(time.value, 1e-3)),
        peak_bytes=peak_bytes,
    )


def _compared(one: Contender, factor: float) -> Contender:
    """The contender, its ratios for a baseline that takes `factor` times as long."""
    ratio, low, high = (_tidy(each * factor) for each in (one.ratio, one.ratio_low, one.ratio_high))
    return replace(one, ratio=ratio, ratio_low=low, ratio_high=high)


def _tidy(value: float) -> float:
    """Five digits are more than any clock here knows."""
    return float(f"{value:.5g}")


def _too_slow(speed: Speed, judged: int) -> Failure:
    title = title_of(speed.baseline)
    sizes = "1 size" if judged == 1 else f"{judged} sizes"
    return Failure(
        "fail",
        Cause(
            "too_slow",
            "Too slow for any of the points",
            f"Over {sizes} it reaches {speed.ratio_low:.2f} to {speed.ratio_high:.2f} of the speed of {title}; points "
            f"begin above {speed.floor:g}.",
            "What does the kernel wait for: memory, arithmetic, or launches? The roofline on the card shows how far "
            "each of them is.",
            f"more than {speed.floor:g}",
            f"{speed.ratio:.3f}",
        ),
    )
