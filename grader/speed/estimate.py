"""Turn samples into numbers that a verdict can rest on: ratios of medians with bootstrap intervals. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# Enough for the ends of a 95 % interval to move by less than a tenth of its width.
_RESAMPLES = 1000
_CONFIDENCE = 0.95
# A fixed seed: the same samples must give the same interval, and so the same verdict.
_SEED = 0x6B65726E


@dataclass(frozen=True)
class Interval:
    """An estimate and its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Return half the interval's width, relative to the estimate."""
        return (self.high - self.low) / 2 / self.value if self.value > 0 else float("inf")


def median(samples: Sequence[float]) -> Interval:
    """Return the median of samples, with its bootstrap interval."""
    return quantile(samples, 0.5)


def quantile(samples: Sequence[float], share: float) -> Interval:
    """Return the value below which a share of the samples lies, with its bootstrap interval."""
    values = np.asarray(samples, dtype=np.float64)
    drawn = np.quantile(values[_resample(len(values))], share, axis=1)
    return Interval(float(np.quantile(values, share)), *_interval_ends(drawn))


def ratio_of_medians(above: Sequence[float], below: Sequence[float]) -> Interval:
    """Return median(above) / median(below), with its bootstrap interval.

    The samples belong together pair by pair, because each pair was taken in one round; the bootstrap draws rounds.
    """
    first, second = (np.asarray(samples, dtype=np.float64) for samples in (above, below))
    drawn = _resample(len(first))
    ratios = np.median(first[drawn], axis=1) / np.maximum(np.median(second[drawn], axis=1), 1e-9)
    return Interval(float(np.median(first) / max(float(np.median(second)), 1e-9)), *_interval_ends(ratios))


def geometric_mean(ratios: Sequence[Interval]) -> Interval:
    """Return the geometric mean of independent ratios; their relative errors add up as squares."""
    values = np.log([ratio.value for ratio in ratios])
    centre = float(np.exp(values.mean()))
    below, above = (
        float(np.sqrt(np.sum(np.square(widths)))) / len(ratios)
        for widths in (
            [np.log(ratio.value / ratio.low) for ratio in ratios],
            [np.log(ratio.high / ratio.value) for ratio in ratios],
        )
    )
    return Interval(centre, centre * float(np.exp(-below)), centre * float(np.exp(above)))


def share(ratio: float, floor: float, full: float) -> float:
    """Return the share of the points for a ratio: 0 up to `floor`, 1 from `full` on, linear between."""
    return min(1.0, max(0.0, (ratio - floor) / (full - floor)))


def _resample(count: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.random.default_rng(_SEED).integers(0, count, (_RESAMPLES, count))


def _interval_ends(drawn: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[float, float]:
    tail = (1 - _CONFIDENCE) / 2
    low, high = np.quantile(drawn, (tail, 1 - tail))
    return float(low), float(high)
