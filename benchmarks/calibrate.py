"""Measure how far to trust the speed verdict here: `python3 benchmarks/calibrate.py [ex_16 [part [verdicts]]]`.

A/A: a part's baseline is timed as if it were a submission, in a second process of the baselines, verdict after verdict
over the suite. Its true ratio is 1, so every verdict must lie above a threshold of 0.97 and below one of 1.03. The
report says how many were wrong or undecided, how wide the intervals were, how long a verdict took, and how far the
grader's own clock was from the GPU's events. docs/timing.md cites its output.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Literal

from grader import machine
from grader.exercise.cases import Case, Cases
from grader.exercise.catalogue import Entry, resolve
from grader.exercise.model import Part
from grader.exercise.rules import SpeedBand
from grader.protocol.answers import Prepared, Sampled
from grader.protocol.baseline_messages import PrepareBaseline
from grader.protocol.requests import Prepare, Sample
from grader.record.speed import SizeTiming
from grader.sandbox.pair import RecordedAnswer
from grader.speed.baseline_process import BaselineProcess
from grader.speed.estimate import Interval
from grader.speed.lock import GpuLock
from grader.speed.rounds import Rounds, TimedCase
from grader.speed.suite import Suite, Verdict

ROOT = Path(__file__).resolve().parents[1]
THRESHOLDS = ((0.97, "above"), (1.03, "below"))


@dataclass(frozen=True)
class Judged:
    """One verdict of the calibration."""

    timing: SizeTiming
    seconds: float


class Twin:
    """A second process of the baselines, asked as a replayer is."""

    runs_on_gpu = True

    def __init__(self, baseline_process: BaselineProcess, baseline: str) -> None:
        self._baseline_process = baseline_process
        self._baseline = baseline

    @property
    def pid(self) -> int:
        """Return its process."""
        return self._baseline_process.pid

    def prepare(self, wanted: Prepare, _: float) -> Prepared:
        """Prepare the baseline instead of a trace."""
        call = wanted.call
        asked = PrepareBaseline(
            self._baseline, call.recipe, call.arguments, call.mutates, wanted.method, wanted.cover_bytes
        )
        return self._baseline_process.prepare(asked)

    def sample(self, wanted: Sample, _: float) -> Sampled:
        """Time it once."""
        return self._baseline_process.sample(Sample(wanted.seed, self._baseline))

    def restart(self) -> None:
        """Do nothing: it never fails."""


class AgainstItself(Suite):
    """A suite whose submission is the baseline: nothing was recorded, and nothing is looked at."""

    def _traces(self, case: Case) -> tuple[RecordedAnswer, ...]:  # noqa: ARG002
        return ()

    def _rounds(self, timed: TimedCase) -> Rounds:
        rounds = super()._rounds(timed)
        rounds._verify = lambda *_, **__: None  # type: ignore[method-assign]
        return rounds


def verdicts(entry: Entry, part: Part, count: int) -> Iterator[Judged | Verdict]:
    """Yield `count` verdicts over the sizes of the part's suite, in turn."""
    band = part.speed_bands[0]
    gpu = machine.find_gpu()
    if gpu is None:
        sys.exit("calibrate: a calibration must run on a GPU, got a machine without one")
    with BaselineProcess(entry) as baseline_process, BaselineProcess(entry) as other:
        gauged, twin = baseline_process.gauge(), Twin(other, band.baseline)
        for i in range(count):
            one = replace(
                band, suite=only(band, band.suite.named_cases[i % len(band.suite.named_cases)]), shown_beside=()
            )
            started = time.monotonic()
            with GpuLock(gpu.uuid).exclusive():
                suite = AgainstItself(part, one, {}, twin, baseline_process, gauged, gpu.uuid, "")  # type: ignore[arg-type]
                verdict = suite.judge()
            seconds = time.monotonic() - started
            sizes = verdict.speed.sizes if verdict.speed else ()
            yield Judged(sizes[0], seconds) if sizes else verdict


def only(band: SpeedBand, case: Case) -> Cases:
    """Return a suite of one size."""
    return Cases(band.suite.space, (dict(case),), generated=0)


def main(wanted: str = "ex_16", part_name: str = "", count: str = "200") -> None:
    """Print the calibration, and keep every verdict as JSON beside this file."""
    entry, _ = resolve(ROOT, wanted)
    part = entry.exercise.part(part_name) or entry.exercise.parts[0]
    by_size: dict[str, list[Judged]] = {}
    for found in verdicts(entry, part, int(count)):
        if not isinstance(found, Judged):
            print("refused:", found.failure or found.undecided)
            continue
        by_size.setdefault(found.timing.words, []).append(found)
    print(f"{'size':46} {'n':>3} {'time µs':>9} {'ratio':>6} {'worst':>6} {'width %':>8} {'judged':>7} {'off µs':>9} s")
    for words, judged in by_size.items():
        print(row(words, judged))
    decided = [got for judged in by_size.values() for one in judged for got in decisions(one)]
    wrong, undecided = decided.count("wrong"), decided.count("undecided")
    print(f"{len(decided)} decisions at thresholds 3 % away: {wrong} wrong, {undecided} undecided")
    kept = {
        words: [vars(one.timing.submission) | {"s": one.seconds} for one in judged] for words, judged in by_size.items()
    }
    (Path(__file__).parent / "calibration.json").write_text(json.dumps(kept, indent=1), encoding="utf-8")


def side_of(ratio: Interval, threshold: float) -> Literal["above", "below", "undecided"]:
    """Return on which side of a threshold a ratio lies, if its interval clears the threshold."""
    if ratio.low >= threshold:
        return "above"
    return "below" if ratio.high < threshold else "undecided"


def decisions(one: Judged) -> list[str]:
    """Return "right", "wrong" or "undecided" at each threshold."""
    own = one.timing.submission
    sides = [(side_of(Interval(own.ratio, own.ratio_low, own.ratio_high), at), must) for at, must in THRESHOLDS]
    return [got if got == "undecided" else "right" if got == must else "wrong" for got, must in sides]


def row(words: str, judged: list[Judged]) -> str:
    """Return a size in numbers: medians, the ratio furthest from 1, how many count, how far the clocks were apart."""
    own = [one.timing.submission for one in judged]
    widths = [100 * (one.ratio_high - one.ratio_low) / one.ratio for one in own]
    off = [one.timing.outside_us - one.timing.submission.median_us for one in judged]
    worst = max((one.ratio for one in own), key=lambda ratio: abs(ratio - 1))
    short = ", ".join(piece for piece in words.split(", ") if not piece.endswith(("=normal", "=rows")))
    return (
        f"{short:46} {len(own):3} {median(one.median_us for one in own):9.1f} {median(one.ratio for one in own):6.3f} "
        f"{worst:6.3f} {median(widths):8.2f} {sum(one.timing.judged for one in judged):7d} "
        f"{min(off):+4.0f}…{max(off):+.0f} {median(one.seconds for one in judged):5.2f}"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
