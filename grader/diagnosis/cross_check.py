"""Choose the causes that one check has confirmed and that may explain the failure of another check of the part.

A cause explains only what it can lead to. Low precision causes rounding errors or overflow, not wrong addresses. Run
nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from torch import Tensor

from grader.diagnosis.kinds import NAMEABLE
from grader.exercise.causes import Shown
from grader.judge.clue import Clue
from grader.judge.failure import Failure
from grader.judge.truth import Expected

# Errors up to this share of the largest value in the row may come from low precision: a sum of thousands of float16
# numbers is off by a few hundredths, and the value of another element by far more.
_ROUNDING_ERROR = 2.0**-3
# Statuses of a call that did not return.
_NOT_RETURNED = ("crash", "compile_error", "timeout", "oom")


def may_explain(kind: str, told_by: Shown, shown: Shown) -> bool:
    """Return whether a kind that one check has confirmed may cause the failure of another check.

    A cause that ends calls explains no failure of a call that returns. told_by: what the first check shows. shown: what
    the other one shows.
    """
    if told_by is Shown.ENDED:
        return shown is Shown.ENDED
    return kind not in NAMEABLE or shown in NAMEABLE[kind].explains


def explaining(clues: Iterable[Clue], told_by: Shown, shown: Shown, named: Collection[str] = ()) -> Iterator[Clue]:
    """Yield the clues of another check, without confirmed ones that cannot explain what this check shows.

    named: kinds that this check's own clues name too. They stay: a sum in low precision that cancels may be far off.
    """
    for clue in clues:
        own = clue.kind in named and told_by is not Shown.ENDED
        if not clue.confirmed or own or may_explain(clue.kind, told_by, shown):
            yield clue


def shown_by(failure: Failure) -> Shown:
    """Return what a failure shows; NEAR if its values were not kept."""
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
    """Return what the wrong values of an output show."""
    if not got.dtype.is_floating_point:
        return Shown.FAR
    wide, value = got.double(), expected.value
    if not bool(value[wrong].isfinite().all()):
        return Shown.FAR
    size = value.nan_to_num(0.0, 0.0, 0.0).abs()
    around = size.amax(-1, keepdim=True).expand(size.shape) if size.dim() else size
    finite = wrong & wide.isfinite()
    off = ((wide - value).abs() / around.clamp(min=1e-300))[finite]
    if off.numel() and float(off.median()) > _ROUNDING_ERROR:
        return Shown.FAR
    return Shown.NEAR if bool((finite == wrong).all()) else Shown.NOT_FINITE
