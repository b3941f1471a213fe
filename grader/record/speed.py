"""Define what a record tells of measured speed: contenders at every size, the GPU, and its best rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from grader.exercise.curves import Curves
from grader.record.json_numbers import Number


@dataclass(frozen=True)
class Ceilings:
    """The best rates that this GPU reached, measured once: streams in TB/s, matrix products in TFLOP/s by dtype."""

    copy_tbps: float
    read_tbps: float
    tflops: dict[str, float]


@dataclass(frozen=True)
class Span:
    """The lowest and the highest reading."""

    low: float
    high: float


@dataclass(frozen=True)
class GpuState:
    """The GPU while kernels were timed, and the driver's reasons for slowing it down."""

    sm_mhz: Span
    memory_mhz: Span
    temperature_c: Span
    power_w: Span
    throttled: tuple[str, ...]
    samples: int


@dataclass(frozen=True)
class Contender:
    """One contender's measurements at one size. Times are medians with their 95 % intervals, in microseconds.

    name: "submission", or a baseline's name. ratio: the time of the band's baseline over this one's, with its 95 %
    interval. tbps, tflops: the compulsory bytes and operations over the time. roofline_share: the time that the
    measured ceilings allow over the time taken, 0 … 1. peak_bytes: the most device memory that a call held beyond its
    inputs (-1: not known).
    """

    name: str
    median_us: float
    low_us: float
    high_us: float
    ratio: float
    ratio_low: float
    ratio_high: float
    tbps: float
    tflops: float
    roofline_share: float
    peak_bytes: int = -1


@dataclass(frozen=True)
class Configuration:
    """One configuration of an autotuned kernel: its distinguishing settings, and its time in microseconds.

    -1: it does not work. -2: it was not tried, because compiling it would have taken too long.
    """

    words: str
    time_us: float
    chosen: bool = False


@dataclass(frozen=True)
class Tuned:
    """The configurations of an autotuned launch, with the line of the submission that it stands in."""

    kernel: str
    line: int
    configurations: tuple[Configuration, ...]


@dataclass(frozen=True)
class SizeTiming:
    """One size of a suite.

    method: "stream" (launched step by step) or "graph" (CUDA-graph replay), the same for all contenders. judged:
    whether the size counts; `reason` says why it does not. share: the part of the points that the ratio earns, 0 … 1.
    rounds: how often each contender ran. outside_us: the submission's median by the grader's own clock, which may be
    off by clock_us. floor_us: the least time that the measured ceilings allow; bound: which ceiling sets it ("memory"
    or "compute"). notes: findings about the measurement. tuned: the choices of autotuners. kernels: the names of what
    the timed call launches.
    """

    case: dict[str, int | float | bool | str]
    words: str
    method: Literal["stream", "graph"]
    judged: bool
    reason: str
    share: float
    rounds: int
    outside_us: float
    clock_us: float
    floor_us: float
    bound: Literal["memory", "compute"]
    contenders: tuple[Contender, ...]
    notes: tuple[str, ...] = ()
    tuned: tuple[Tuned, ...] = ()
    kernels: tuple[str, ...] = ()

    @property
    def submission(self) -> Contender:
        """Return the submission's own row."""
        return next(one for one in self.contenders if one.name == "submission")


@dataclass(frozen=True)
class Baseline:
    """A computation that the submission is compared with; `missing` says why it could not run here."""

    name: str
    title: str
    missing: str = ""


@dataclass(frozen=True)
class Speed:
    """A speed check's measurements. ratio: geometric mean over the judged sizes, with its 95 % interval.

    baseline: the one that decides the points; baselines: this one, and all that are shown beside it. fallback: why it
    is not the specification's first choice, or ''. curves: the specification's.
    """

    baseline: str
    floor: float
    full: float
    ratio: Number
    ratio_low: Number
    ratio_high: Number
    sizes: tuple[SizeTiming, ...]
    baselines: tuple[Baseline, ...]
    note: str = ""
    ceilings: Ceilings | None = None
    gpu: GpuState | None = None
    curves: Curves | None = None
    fallback: str = ""
