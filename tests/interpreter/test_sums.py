"""A sum by atomic additions depends on the order only where rounding makes a difference."""

from __future__ import annotations

import numpy as np
import pytest

from grader.interpreter.accesses.sums import AtomicSums, depend_on_order

Numbers = list[float]


def depends(values: Numbers, *, start: float = 0.0, addresses: list[int] | None = None) -> bool:
    """Return the answer for numbers that are added to one address, or to several that start alike."""
    places = np.array(addresses or [8] * len(values))
    return depend_on_order(places, np.full(len(values), start, np.float32), np.array(values, np.float32))


@pytest.mark.parametrize(
    ("values", "start", "expected"),
    [
        ([1.0, 4e-8, 4e-8], 0.0, True),
        ([1e8, -1e8, 1.0], 0.0, True),
        # Two numbers added to zero commute; three that are added without rounding do not care.
        ([0.1, 0.7], 0.0, False),
        ([1e8, 1.0], -1e8, True),
        ([1.0, 2.0, 3.0], 4.0, False),
        ([0.3], 0.1, False),
        # These have one sum in any order, and others like them have not.
        ([-10.105299949645996, -8.779608726501465, 15.904653549194336], 0.0, True),
        ([float("nan"), 1.0, 2.0], 0.0, False),
    ],
)
def test_three_numbers_that_round_depend_on_their_order(values: Numbers, start: float, expected: bool) -> None:
    assert depends(values, start=start) is expected


def test_addresses_do_not_mix() -> None:
    assert not depends([1.0, 4e-8, 4e-8], addresses=[4, 8, 12])
    assert depends([1.0, 5.0, 4e-8, 6.0, 4e-8], addresses=[4, 8, 4, 8, 4])


def test_lines_are_told_once_and_launches_do_not_mix() -> None:
    sums = AtomicSums()
    for line, values in ((7, [1e8, -1e8]), (9, [1.0, 2.0])):
        for one in values:
            sums.note(line, np.array([8]), np.zeros(1, np.float32), np.array([one], np.float32))
    sums.finish_launch()
    sums.note(7, np.array([8]), np.zeros(1, np.float32), np.array([1.0], np.float32))
    sums.finish_launch()
    assert sums.take() == ()
    for one in (1e8, -1e8, 1.0):
        sums.note(7, np.array([8]), np.zeros(1, np.float32), np.array([one], np.float32))
    sums.finish_launch()
    assert (sums.take(), sums.take()) == ((7,), ())


def test_whole_numbers_are_not_looked_at() -> None:
    sums = AtomicSums()
    for one in (1, 2, 3):
        sums.note(7, np.array([8]), np.zeros(1, np.int32), np.array([one], np.int32))
    sums.finish_launch()
    assert sums.take() == ()
