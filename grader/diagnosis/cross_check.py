"""Say which causes that one check has confirmed may explain the failure of another check of the part.

A cause explains only what it can lead to: too few bits move no address, and a second launch makes no NaN. It runs
nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from torch import Tensor

from grader.diagnosis.kinds import GENERAL
from grader.exercise.causes import Shown
from grader.judge.clue import Clue
from grader.judge.failures import Failure
from grader.judge.truth import Expected

# Errors up to this share of the largest value around them may be those of few bits: a sum of thousands of numbers in
# float16 is off by a few hundredths, and another element's value by far more.
_NEAR = 2.0**-3
# Statuses of a call that did not return.
_NOT_RETURNED = ("crash", "compile_error", "timeout", "oom")


def may_explain(kind: str, told_by: Shown, shown: Shown) -> bool:
    """Return whether a kind that the failure of one check confirms may lead to that of another.

    What ends a call does so in every call that comes to it, and one that returns did not: it explains no other failure.
    """
    if told_by is Shown.ENDED:
        return shown is Shown.ENDED
    return kind not in GENERAL or shown in GENERAL[kind].explains


def explaining(clues: Iterable[Clue], told_by: Shown, shown: Shown, named: Collection[str] = ()) -> Iterator[Clue]:
    """Yield the clues of another check; of the confirmed ones, those that may explain what a check shows.

    named: kinds that the check's own clues name: sums that cancel may be far off and have too few bits.
    """
    for clue in clues:
        own = clue.kind in named and told_by is not Shown.ENDED
        if not clue.confirmed or own or may_explain(clue.kind, told_by, shown):
            yield clue


def shown_by(failure: Failure) -> Shown:
    """Return what a failure shows. Values that nobody can look at again may be near."""
    cause = failure.cause
    if cause.kind in ("out_of_bounds", "race"):
        return Shown.ACCESS
    if failure.status in _NOT_RETURNED:
        return Shown.ENDED
    if cause.mismatch is None:
        return Shown.BESIDE
    if failure.wrong_call is None:
        return Shown.NEAR
    return next((_look(*one) for one in failure.wrong_call.answers() if bool(one[1].any())), Shown.NEAR)


def _look(got: Tensor, wrong: Tensor, expected: Expected) -> Shown:
    """Return what the values of an output show."""
    if not got.dtype.is_floating_point:
        return Shown.FAR
    wide, value = got.double(), expected.value
    if not bool(value[wrong].isfinite().all()):
        return Shown.FAR
    size = value.nan_to_num(0.0, 0.0, 0.0).abs()
    around = size.amax(-1, keepdim=True).expand(size.shape) if size.dim() else size
    finite = wrong & wide.isfinite()
    off = ((wide - value).abs() / around.clamp(min=1e-300))[finite]
    if off.numel() and float(off.median()) > _NEAR:
        return Shown.FAR
    return Shown.NEAR if bool((finite == wrong).all()) else Shown.NOT_FINITE
