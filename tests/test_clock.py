"""The time of record: an honest claim stands, a claim of less than the clock outside knows is raised to that."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.speed.clock import CLOCK_OFFSET_US, Lap, foretold_us, middle, time_of_record

LAPS = st.lists(st.builds(Lap, st.floats(0, 1e5), st.floats(0, 1e6)), min_size=1, max_size=30)

# Calls of 500 µs in round trips of 1000: of another's as long, the clock outside can prove this much.
STEADY = [Lap(500.0, 1000.0)] * 7
PROVEN_US = 500.0 - CLOCK_OFFSET_US


def laps(device_us: float, beside_us: float, *, claims: float | None = None, seed: int = 17) -> list[Lap]:
    """Calls that take `device_us`, in round trips that take `beside_us` more, or a little longer where disturbed."""
    late = np.random.default_rng(seed).exponential(3.0, 40)
    said = device_us if claims is None else claims
    return [Lap(said, device_us + beside_us + float(one)) for one in late]


def test_an_honest_claim_stands() -> None:
    submission = laps(120.0, 900.0)
    record = time_of_record(submission, laps(100.0, 900.0, seed=7))
    assert record.samples == [lap.device_us for lap in submission]
    assert record.added_us == 0
    assert record.notes == ()
    assert record.outside_us == pytest.approx(120, abs=record.clock_us)


@pytest.mark.parametrize("claim", [0.0, 1.0, 60.0])
def test_a_claim_of_too_little_is_raised_to_what_the_clock_outside_knows_less_its_uncertainty(claim: float) -> None:
    record = time_of_record(laps(1200.0, 900.0, claims=claim), laps(1000.0, 900.0, seed=7))
    counted = float(np.median(record.samples))
    assert counted == pytest.approx(record.outside_us - record.clock_us)
    assert 1200 - 2 * record.clock_us <= counted <= 1200
    assert record.added_us == pytest.approx(counted - claim)


def test_a_clock_that_does_not_know_the_baseline_itself_well_enough_adds_nothing() -> None:
    record = time_of_record(laps(120.0, 900.0, claims=0.0), laps(100.0, 900.0, seed=7))
    assert not record.known
    assert (record.added_us, record.notes) == (0.0, ())


@pytest.mark.parametrize(("baseline_us", "known"), [(20 * CLOCK_OFFSET_US, True), (19.9 * CLOCK_OFFSET_US, False)])
def test_well_enough_is_a_twentieth(baseline_us: float, known: bool) -> None:
    assert time_of_record(STEADY, [Lap(baseline_us, 1000.0)] * 7).known == known


def test_what_the_clock_will_know_in_the_end_shrinks_with_the_root_of_the_rounds_but_never_below_its_offset() -> None:
    assert foretold_us(CLOCK_OFFSET_US + 40.0, 0.25) == pytest.approx(CLOCK_OFFSET_US + 20.0)
    assert foretold_us(CLOCK_OFFSET_US + 40.0, 1.5) == pytest.approx(CLOCK_OFFSET_US + 40.0)
    assert foretold_us(CLOCK_OFFSET_US, 0.1) == pytest.approx(CLOCK_OFFSET_US)


def test_what_is_added_is_said_with_both_numbers() -> None:
    (note,) = time_of_record([Lap(10.0, 1000.0)] * 7, STEADY).notes
    assert note == (
        f"the submission's own clock says 10.0 µs, the one outside at least {PROVEN_US:.1f} µs: that counts"
    )


@pytest.mark.parametrize(("share", "noted"), [(1.0, False), (1 / 1.02, False), (1 / 1.04, True), (0.0, True)])
def test_a_disagreement_is_a_finding_beyond_three_per_cent(share: float, noted: bool) -> None:
    record = time_of_record([Lap(share * PROVEN_US, 1000.0)] * 7, STEADY)
    assert bool(record.notes) == noted
    assert record.samples == pytest.approx([PROVEN_US] * 7)


def test_a_claim_of_more_than_was_seen_outside_is_taken_at_its_word() -> None:
    record = time_of_record(laps(50.0, 900.0, claims=500.0), laps(100.0, 900.0, seed=7))
    assert set(record.samples) == {500.0}
    assert record.notes == ()


def test_a_few_disturbed_round_trips_prove_nothing() -> None:
    submission = laps(100.0, 900.0)
    disturbed = [Lap(lap.device_us, lap.outside_us + 5000 * (i % 2)) for i, lap in enumerate(submission)]
    assert time_of_record(disturbed, laps(100.0, 900.0, seed=7)).added_us == 0


def test_without_any_spread_the_clock_is_known_to_the_offset_between_two_processes() -> None:
    assert time_of_record(STEADY, STEADY).clock_us == CLOCK_OFFSET_US


@given(LAPS, LAPS, LAPS)
def test_how_well_the_clock_knows_depends_on_the_baseline_alone(
    one: list[Lap], other: list[Lap], baseline: list[Lap]
) -> None:
    first, second = (time_of_record(submission, baseline) for submission in (one, other))
    assert (first.clock_us, first.known) == (second.clock_us, second.known)


def test_a_submission_that_varies_of_its_own_accord_does_not_unsettle_the_clock() -> None:
    wild = [Lap(0.0, 1500.0 + 1000 * (i % 7)) for i in range(40)]
    record = time_of_record(wild, STEADY)
    assert (record.clock_us, record.known) == (CLOCK_OFFSET_US, True)
    assert record.samples == pytest.approx([1000.0 - CLOCK_OFFSET_US] * 40)


@given(LAPS, LAPS)
def test_nothing_is_ever_subtracted_from_a_claim(submission: list[Lap], baseline: list[Lap]) -> None:
    record = time_of_record(submission, baseline)
    assert record.added_us >= 0
    assert record.clock_us >= CLOCK_OFFSET_US
    assert all(counted >= lap.device_us for counted, lap in zip(record.samples, submission, strict=True))


@given(LAPS, LAPS, st.floats(0, 0.9))
def test_claiming_less_never_counts_as_less_than_is_proven(
    submission: list[Lap], baseline: list[Lap], share: float
) -> None:
    smaller = time_of_record([Lap(lap.device_us * share, lap.outside_us) for lap in submission], baseline)
    proven_us = smaller.outside_us - smaller.clock_us if smaller.known else 0.0
    assert float(np.median(smaller.samples)) >= proven_us - 1e-6


def test_the_middle_is_the_median_of_the_claims() -> None:
    assert middle([Lap(1.0, 9.0), Lap(7.0, 0.0), Lap(500.0, 9.0)]) == 7
