"""Which time counts: the one that the submission's process claims, unless the clock outside it knows better."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import median as plain_median

from grader.speed.estimate import quantile

# What the round trips of two processes differ by for reasons of their own; measured, see docs/timing.md.
CLOCK_OFFSET_US = 15.0
# It must know the baseline's time this well for a size to give points.
CLOCK_SHARE = 0.05
# Whatever disturbs a round trip makes it longer: its fastest ones repeat far better than its middle. Every call is
# verified, so no call can be fast by doing less.
_UNDISTURBED = 0.05
# A disagreement of this much is a finding.
_DISAGREEMENT = 1.03


@dataclass(frozen=True)
class Lap:
    """One timed call: microseconds by the clock of the process that ran it, and round trip by the grader's own; and
    the most device memory that it held beyond its inputs, by that process (-1: not known).
    """

    device_us: float
    outside_us: float
    peak_bytes: int = -1


@dataclass(frozen=True)
class Recorded:
    """The submission's times that count.

    outside_us: its time by the clock outside, known to within clock_us. known: whether that is well enough to count.
    added_us: what it then adds to its own clock's.
    """

    samples: list[float]
    outside_us: float
    clock_us: float
    known: bool
    added_us: float
    notes: tuple[str, ...]


def time_of_record(submission: list[Lap], baseline: list[Lap]) -> Recorded:
    """What a round trip takes beside the call itself is known from the baseline, whose own clock can be trusted; the
    rest of the submission's round trip is its call. It counts, less its uncertainty, where it is more than is claimed.
    """
    beside = quantile([lap.outside_us - lap.device_us for lap in baseline], _UNDISTURBED)
    trips = quantile([lap.outside_us for lap in submission], _UNDISTURBED)
    claimed = middle(submission)
    outside_us = trips.value - beside.value
    # Both round trips carry the baseline's spread: a submission that makes its own vary widens nothing.
    clock_us = sqrt(2) * (beside.high - beside.low) / 2 + CLOCK_OFFSET_US
    known = clock_us <= CLOCK_SHARE * middle(baseline)
    added_us = max(0.0, outside_us - clock_us - claimed) if known else 0.0
    note = (
        f"the submission's own clock says {claimed:.1f} µs, the one outside at least {claimed + added_us:.1f} µs: that "
        "counts"
    )
    return Recorded(
        [lap.device_us + added_us for lap in submission],
        outside_us,
        clock_us,
        known,
        added_us,
        (note,) if added_us > (_DISAGREEMENT - 1) * claimed else (),
    )


def foretold_us(clock_us: float, spent: float) -> float:
    """How well the clock outside will know the time in the end, if it knows it to `clock_us` after `spent` of all
    rounds: the sampling error shrinks with the square root of their number.
    """
    return CLOCK_OFFSET_US + (clock_us - CLOCK_OFFSET_US) * sqrt(min(spent, 1.0))


def middle(laps: list[Lap]) -> float:
    """The median of the times that a process gave for its own calls."""
    return plain_median(lap.device_us for lap in laps)
