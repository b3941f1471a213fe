"""From samples to numbers: intervals hold the truth as often as they say, and nothing about them is left to chance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.calibrate import side_of
from grader.speed.estimate import Interval, geometric_mean, median, quantile, ratio_of_medians, share

pytestmark = pytest.mark.process

TIMES = st.lists(st.floats(1, 1e6), min_size=1, max_size=40)
RATIOS = st.floats(0, 10)


def simulated(seed: int, count: int, *, centre: float = 100.0, spread: float = 0.05) -> list[float]:
    """Times of a machine that is sometimes disturbed: skewed to the long side. Their true median is `centre`."""
    drawn = np.random.default_rng(seed).standard_gamma(2.0, count)
    return [float(centre * (1 + spread * (one - 1.6783469900166608))) for one in drawn]


def around(value: float, half: float) -> Interval:
    return Interval(value, value - half, value + half)


def test_an_interval_of_a_median_holds_the_truth_nineteen_times_in_twenty() -> None:
    holding = sum(found.low <= 100 <= found.high for found in (median(simulated(seed, 41)) for seed in range(400)))
    assert 0.92 <= holding / 400 <= 0.99


def test_an_interval_of_a_ratio_holds_the_truth_nineteen_times_in_twenty() -> None:
    holding = 0
    for seed in range(400):
        found = ratio_of_medians(simulated(seed, 40, centre=80), simulated(seed + 1000, 40))
        holding += found.low <= 0.8 <= found.high
    assert 0.92 <= holding / 400 <= 0.99


def test_more_rounds_make_an_interval_narrower() -> None:
    widths = [median(simulated(7, count)).half_width for count in (20, 80, 320)]
    assert widths == sorted(widths, reverse=True)


@given(TIMES)
def test_the_same_samples_give_the_same_interval(samples: list[float]) -> None:
    assert median(samples) == median(list(samples))
    assert ratio_of_medians(samples, samples[::-1]) == ratio_of_medians(samples, samples[::-1])


@given(TIMES, st.sampled_from([0.125, 2.0, 1024.0]))
def test_another_unit_changes_the_unit_only(samples: list[float], scale: float) -> None:
    scaled = median([scale * one for one in samples])
    plain = median(samples)
    assert (scaled.value, scaled.low, scaled.high) == pytest.approx(
        (scale * plain.value, scale * plain.low, scale * plain.high)
    )
    ratio = ratio_of_medians([scale * one for one in samples], [scale * one for one in samples])
    assert ratio.value == pytest.approx(1)


@given(TIMES)
def test_an_interval_lies_within_the_samples_and_around_the_estimate(samples: list[float]) -> None:
    found = median(samples)
    assert min(samples) <= found.low <= found.high <= max(samples)
    assert found.low * (1 - 1e-12) <= found.value <= found.high * (1 + 1e-12)


def test_pairs_that_suffer_together_are_compared_pair_by_pair() -> None:
    # A machine that slows down tenfold halfway through slows both contenders: their ratio is known all the same.
    weather = [1.0 + 9 * (i >= 20) for i in range(41)]
    ratio = ratio_of_medians([50 * slow for slow in weather], [100 * slow for slow in weather])
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((0.5, 0.5, 0.5))


def test_a_single_sample_is_its_own_interval() -> None:
    assert median([7.0]) == Interval(7.0, 7.0, 7.0)
    assert quantile([7.0], 0.05) == Interval(7.0, 7.0, 7.0)


def test_a_claim_of_no_time_at_all_makes_a_ratio_huge_and_no_error() -> None:
    assert ratio_of_medians([100.0] * 7, [0.0] * 7).value == pytest.approx(1e11)
    assert Interval(0.0, 0.0, 0.0).half_width == math.inf


def test_a_quantile_is_the_value_that_its_share_lies_below() -> None:
    found = quantile([float(one) for one in range(101)], 0.05)
    assert found.value == 5
    assert 0 <= found.low <= 5 <= found.high <= 17


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=7))
def test_a_geometric_mean_lies_among_its_ratios_and_of_equal_ones_is_that_one(values: list[float]) -> None:
    mean = geometric_mean([around(value, 0.05 * value) for value in values])
    assert min(values) <= mean.value * (1 + 1e-9)
    assert mean.value <= max(values) * (1 + 1e-9)
    assert mean.low < mean.value < mean.high
    assert geometric_mean([around(values[0], 0)] * 3).value == pytest.approx(values[0])


def test_a_geometric_mean_weighs_twice_as_fast_against_half_as_fast() -> None:
    mean = geometric_mean([around(2.0, 0.0), around(0.5, 0.0)])
    assert (mean.value, mean.low, mean.high) == pytest.approx((1, 1, 1))


def test_independent_errors_add_up_as_squares() -> None:
    one = geometric_mean([around(1.0, 0.02)])
    four = geometric_mean([around(1.0, 0.02)] * 4)
    assert four.half_width == pytest.approx(one.half_width / 2, rel=0.01)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(1.0, 1.2, "above"), (1.01, 1.2, "above"), (0.8, 0.99, "below"), (0.9, 1.1, "undecided"), (0.9, 1.0, "undecided")],
)
def test_a_ratio_is_on_a_side_only_where_its_interval_clears_the_threshold(
    low: float, high: float, expected: str
) -> None:
    assert side_of(Interval((low + high) / 2, low, high), 1.0) == expected


@pytest.mark.parametrize(
    ("ratio", "worth"), [(0.0, 0), (0.5, 0), (0.6, 0.25), (0.7, 0.5), (0.9, 1), (7.0, 1), (math.inf, 1)]
)
def test_points_grow_linearly_between_floor_and_full(ratio: float, worth: float) -> None:
    assert share(ratio, 0.5, 0.9) == pytest.approx(worth)


@given(RATIOS, RATIOS, st.floats(0, 2), st.floats(0.01, 2))
def test_a_faster_kernel_never_gets_fewer_points(one: float, other: float, floor: float, width: float) -> None:
    slower, faster = sorted((one, other))
    assert 0 <= share(slower, floor, floor + width) <= share(faster, floor, floor + width) <= 1
