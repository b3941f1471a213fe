"""Which failing cases of a comparison are explained, and in which order."""

from __future__ import annotations

from grader.exercise.cases import QUICK_VOLUME, Case
from grader.exercise.plan import PlannedCase
from grader.judge.failures import Failure
from grader.judge.rules.agrees import _most_telling
from grader.record import Cause, Mismatch


def failed(side: int) -> tuple[PlannedCase, Failure]:
    """Return a failing product of matrices with this side."""
    mismatch = Mismatch("c", 1, side * side, 1.0, 1.0, (0, 0), "scattered", ())
    cause = Cause("mismatch", "c is wrong", "…", mismatch=mismatch)
    return PlannedCase(Case({"M": side, "N": side, "K": side}), side), Failure("fail", cause)


def explained(*sides: int) -> list[str]:
    found = _most_telling([failed(side) for side in sides])
    return [one.cause.case.partition(",")[0] for one in found]


def test_the_largest_outputs_are_explained_first() -> None:
    assert explained(1, 64, 16, 100) == ["M=100", "M=64", "M=16", "M=1"]


def test_calls_that_take_the_oracle_seconds_are_explained_last_the_smallest_first() -> None:
    assert 2048**3 > QUICK_VOLUME > 100**3
    assert explained(4096, 2048, 1, 100) == ["M=100", "M=1", "M=2048", "M=4096"]
    assert explained(4096, 2048, 3, 4, 5, 6) == ["M=6", "M=5", "M=4", "M=3"]
