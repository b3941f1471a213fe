"""Say which causes that one check has confirmed may explain the failure of another check of the part.

A cause explains only what it can lead to: too few bits move no address, and a second launch makes no NaN. It runs
nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from torch import Tensor

from grader.judge.clue import Clue
from grader.judge.failures import Failure
from grader.judge.truth import Expected

# Errors up to this share of the largest value around them may be those of few bits: a sum of thousands of numbers in
# float16 is off by a few hundredths, and another element's value by far more.
_NEAR = 2.0**-3
# Statuses of a call that did not return.
_ENDS = ("crash", "compile_error", "timeout", "oom")


class Shown(Enum):
    """Name what a failing check shows.

    ENDED: the call did not return. ACCESS: an access that must not be. BESIDE: anything else than values, such as a
    form, launches or bytes. NEAR, FAR: values that are off by a rounding, or by more. NOT_FINITE: infinities or NaN,
    and no value that is far off.
    """

    ENDED = auto()
    ACCESS = auto()
    BESIDE = auto()
    NEAR = auto()
    FAR = auto()
    NOT_FINITE = auto()


_VALUES = frozenset({Shown.NEAR, Shown.FAR, Shown.NOT_FINITE})


@dataclass(frozen=True)
class Limit:
    """Kinds that explain no more than some failures of other checks, and why."""

    kinds: tuple[str, ...]
    explain: frozenset[Shown]
    why: str


# A kind that none of them names explains any failure.
LIMITS = (
    Limit(
        ("low_precision_sum", "rounded_intermediate"),
        frozenset({Shown.NEAR, Shown.NOT_FINITE}),
        "Too few bits spoil the last digits, or overflow. They move no address.",
    ),
    Limit(("tf32",), frozenset({Shown.NEAR}), "TF32 has the range of float32: it does not overflow either."),
    Limit(
        ("several_launches", "through_memory"),
        frozenset({Shown.BESIDE, Shown.NEAR}),
        "What goes through memory may be rounded on the way, and no more.",
    ),
    Limit(
        (
            *("read_again", "moves_unneeded", "large_temporary", "values_read", "other_means"),
            *("shared_memory", "spills", "no_tensor_cores"),
        ),
        frozenset({Shown.BESIDE}),
        "How much work it is, and who does it, changes no value.",
    ),
    Limit(
        ("compiled_differs", "pipelined", "compiled_for_warps"),
        frozenset(),
        "What a compiler does to one call tells nothing of a call that the interpreter finds wrong too.",
    ),
    Limit(
        ("work_outside_kernels",),
        _VALUES | {Shown.BESIDE},
        "Torch accesses nothing outside a tensor. Its values may be wrong, though this is a rule of its own.",
    ),
    Limit(
        ("wrong_dtype", "wrong_form"),
        frozenset({Shown.BESIDE}),
        "Values are compared where the form is right: another case has another one.",
    ),
    Limit(
        (
            *("overflow", "clamped", "value_shortcut", "wrong_factor", "no_maximum", "no_rescale", "scale_missing"),
            *("scale_inverted", "scale_ignored", "scaled_maximum", "maximum_of_hidden", "logarithm_base"),
        ),
        _VALUES | {Shown.BESIDE},
        "A step of the formula moves no address.",
    ),
)
_EXPLAIN: Mapping[str, frozenset[Shown]] = {kind: limit.explain for limit in LIMITS for kind in limit.kinds}


def may_explain(kind: str, told_by: Shown, shown: Shown) -> bool:
    """Return whether a kind that the failure of one check confirms may lead to that of another.

    What ends a call does so in every call that comes to it, and one that returns did not: it explains no other failure.
    """
    if told_by is Shown.ENDED:
        return shown is Shown.ENDED
    return shown in _EXPLAIN.get(kind, frozenset(Shown))


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
    if failure.status in _ENDS:
        return Shown.ENDED
    if cause.mismatch is None:
        return Shown.BESIDE
    if failure.seen is None:
        return Shown.NEAR
    return next((_look(*one) for one in failure.seen.answers() if bool(one[1].any())), Shown.NEAR)


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
