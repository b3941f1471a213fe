"""The messages between the grader and the baseline process (grader.speed.baseline_process). Both trust each other.

    parent -> baselines     Begin, Gauge, Ask, PrepareBaseline, Sample, Reveal, Rest
    baselines -> parent     Gauged, Missing, Prepared, Sampled, Revealed, Rested, Failed

A case is timed by one PrepareBaseline for each baseline, then Sample after Sample, each with a seed of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from grader.protocol.requests import Method, Recipe


@dataclass(frozen=True)
class Begin:
    """The first message to the baseline process: the exercise that it serves (grader.exercise.catalogue.Entry).

    parts: those that will probably be timed; empty for all.
    """

    root: str
    name: str
    parts: tuple[str, ...] = ()
    op: Literal["begin"] = "begin"


@dataclass(frozen=True)
class Gauge:
    """Ask for the GPU's identity and capabilities."""

    op: Literal["gauge"] = "gauge"


@dataclass(frozen=True)
class Gauged:
    """The GPU's memory sizes and the best it reached: streams in TB/s, matrix products in TFLOP/s by dtype."""

    l2_bytes: int
    memory_bytes: int
    copy_tbps: float
    read_tbps: float
    tflops: dict[str, float]


@dataclass(frozen=True)
class Ask:
    """Ask for the baselines of a part that can run here; they are tried on the recipe."""

    recipe: Recipe
    baselines: tuple[str, ...]
    op: Literal["ask"] = "ask"


@dataclass(frozen=True)
class Missing:
    """The reasons for which baselines cannot run, by name; an empty text for those that can."""

    missing: dict[str, str]


@dataclass(frozen=True)
class PrepareBaseline:
    """Prepare to time a baseline of a part; several are prepared at the same time, each under its name."""

    baseline: str
    recipe: Recipe
    arguments: tuple[str, ...]
    mutates: tuple[str, ...]
    method: Method
    cover_bytes: int
    op: Literal["prepare_baseline"] = "prepare_baseline"


@dataclass(frozen=True)
class Reveal:
    """Ask for the truth: float64 values, then allowed errors, in the memory file.

    Of `count` elements of an output, from the element `first` of its portion on. chance: the portion of the outputs, as
    the exercise cuts them (grader.judge.truth); None: all of them.
    """

    recipe: Recipe
    output: int
    first: int
    count: int
    chance: float | None = None
    op: Literal["reveal"] = "reveal"


@dataclass(frozen=True)
class Revealed:
    """The extent of the revealed truth: `elements` of this dtype, from the element `start` of the output on."""

    dtype: str
    start: int
    elements: int


@dataclass(frozen=True)
class Rest:
    """Let the baseline process release the device memory that it no longer needs."""

    op: Literal["rest"] = "rest"


@dataclass(frozen=True)
class Rested:
    """The baseline process holds no tensor any more."""


@dataclass(frozen=True)
class Failed:
    """The baseline process could not do its job."""

    why: str
