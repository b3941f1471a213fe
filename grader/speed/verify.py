"""What is looked at behind every timed call, and the verdicts on what is found there.

The process has committed to its outputs by the sums of their pieces (grader.protocol.spans) before it learns which
piece it has to show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from grader.judge.causes import Failure
from grader.judge.compare import compare
from grader.judge.truth import Expected
from grader.model.cases import Case
from grader.protocol.messages import Clocked, Form, Open, Revealed
from grader.protocol.spans import spans, word_sum
from grader.record import Cause, clean
from grader.sandbox.outcome import Clocking

# How far a submission may lie from a baseline, in parts of an element's own size and of the typical one: stale or
# missing results lie further away, two honest roundings never do.
_LOOSE = 0.05
_LOOKED_AT = 1 << 14


class Refused(Exception):
    """The submission cannot be timed; `failure` is the verdict."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.cause.rationale)
        self.failure = failure


@dataclass(frozen=True)
class Glance:
    """Which output is looked at, and which of its pieces: chances drawn before a round, told to nobody."""

    output_chance: float
    piece_chance: float

    def piece(self, forms: Sequence[Revealed]) -> tuple[Open, int]:
        """The request to show it, for outputs of these forms; and its place among the output's pieces."""
        output = int(self.output_chance * len(forms))
        pieces = spans(nbytes(forms[output]))
        place = int(self.piece_chance * len(pieces))
        first, count = pieces[place] if pieces else (0, 0)
        return Open(output, first, count), place


@dataclass(frozen=True)
class Shown:
    """Bytes of an output, and which they are."""

    piece: Open
    form: Revealed
    raw: bytes

    def elements(self) -> Tensor:
        """The bytes as elements, one after another."""
        if not self.raw:
            return torch.empty(0, dtype=dtype_of(self.form))
        return torch.frombuffer(bytearray(self.raw), dtype=dtype_of(self.form))


def dtype_of(form: Revealed) -> torch.dtype:
    """The torch dtype of a form that comes from a trusted process."""
    found = getattr(torch, form.dtype)
    assert isinstance(found, torch.dtype)
    return found


def nbytes(form: Revealed) -> int:
    """The size of an output of that form."""
    return dtype_of(form).itemsize * math.prod(form.shape)


def has_form(ran: Clocking, forms: Sequence[Revealed]) -> None:
    """Every output is a plain tensor of the form that the contract asks for, with all its sums. Raises Refused."""
    wanted = [Form("tensor", form.dtype, form.shape) for form in forms]
    got = [Form(form.kind, form.dtype, form.shape) for form in ran.answer.outputs]
    if got == wanted and len(ran.sums) == sum(len(spans(nbytes(form))) for form in forms) + 1:
        return
    rule, found = _forms(wanted), _forms(got)
    title = "A timed call returned something else"
    rationale = f"A timed call must return {rule}, got {found}."
    raise Refused(Failure("fail", Cause("wrong_form", title, rationale, _HELP, rule, found)))


def _forms(forms: Sequence[Form]) -> str:
    said = [f"{form.kind} {form.dtype} {list(form.shape)}" if form.dtype else form.kind for form in forms[:4]]
    return clean(", ".join(said), 300) or "nothing"


def kept_its_word(
    ran: Clocking, forms: Sequence[Revealed], piece: Open, place: int, raw: bytes | None, case: Case
) -> None:
    """The bytes shown are those whose sum was sent when the call returned. Raises Refused."""
    before = sum(len(spans(nbytes(form))) for form in forms[: piece.output])
    if piece.count and (raw is None or ran.sums[before + place] != word_sum(raw)):
        said = "the output was not the same when the timed call returned and when it was looked at"
        raise Refused(_failure("changed_after_timing", "The output changed after the call", case, said))


def used_technique(answer: Clocked, allowed: Sequence[str], case: Case) -> None:
    """Kernels were launched, and no ATen operator but the allowed ones computed. Raises Refused."""
    if not answer.launches:
        raise Refused(_policy("no_kernel", "No kernel was launched", f"For {case.words()}, timed, none of yours ran."))
    computing = [clean(name, 60) for name in answer.operators if name not in allowed]
    if computing:
        said = f"For {case.words()}, timed, these ran beside your kernels: {', '.join(computing[:5])}."
        raise Refused(_policy("library_call", "Something besides your kernels computed", said))


def is_fresh(ran: Clocking, before: Clocking | None, case: Case) -> None:
    """The outputs are not, to the bit, those of the call before, which had other inputs. Raises Refused."""
    if before is not None and any(ran.sums[:-1]) and ran.sums[:-1] == before.sums[:-1]:
        said = "two timed calls on different inputs gave the same bits"
        raise Refused(_failure("stale_result", "An earlier answer was returned again", case, said))


def resembles(shown: Shown, witnessed: Shown) -> bool:
    """Whether the elements are near those that a baseline made of the same inputs, or of a form of their own."""
    if shown.form != witnessed.form:
        return True
    got, wanted = (one.elements()[:_LOOKED_AT].double() for one in (shown, witnessed))
    finite = wanted.isfinite()
    size = wanted[finite].abs()
    typical = size.square().mean().sqrt() if size.numel() else torch.tensor(0.0)
    return bool(((got[finite] - wanted[finite]).abs() <= _LOOSE * (size + typical)).all())


def is_true(got: Tensor, name: str, dtype: torch.dtype, values: bytes, allowed: bytes, case: Case) -> None:
    """The elements lie within the tolerances that answers are judged by. Raises Refused."""
    expected = Expected(name, _doubles(values), dtype, _doubles(allowed))
    comparison = compare(got, expected)
    if not comparison.agrees:
        said = f"{int(comparison.wrong.sum())} of {got.numel()} elements looked at were outside the tolerance"
        raise Refused(_failure("wrong_when_timed", "The answer was wrong while it was timed", case, said))


def _doubles(raw: bytes) -> Tensor:
    return torch.frombuffer(bytearray(raw), dtype=torch.float64) if raw else torch.empty(0, dtype=torch.float64)


# -- verdicts --------------------------------------------------------------------------------------------------------

_HELP = "Every timed call gets inputs of its own and must compute all of its output, on the current stream."


def tampered() -> Failure:
    """The cover was not what its seed gives."""
    return _policy(
        "measurement_skipped",
        "The measurement was tampered with",
        "The bytes that every timed call begins with are not those of its seed.",
    )


def slowed(beside_us: float, alone_us: float) -> str:
    """What is noted where the baseline was slower beside the submission than it is by itself."""
    return (
        f"the baseline took {beside_us:.0f} µs in turns with the submission, and {alone_us:.0f} µs once no process of "
        "it was left: the ratios are to the latter"
    )


def impossible(case: Case, time_us: float, floor_us: float) -> Failure:
    """The time is less than the GPU needs to move the bytes and do the arithmetic."""
    return _policy(
        "impossible_time",
        "Faster than this GPU can be",
        f"For {case.words()} the call took {time_us:.1f} µs; moving the bytes and doing the arithmetic takes this GPU "
        f"at least {floor_us:.1f} µs.",
    )


def _failure(kind: str, title: str, case: Case, said: str) -> Failure:
    return Failure("fail", Cause(kind, title, f"For {case.words()} {said}.", _HELP))


def _policy(kind: str, title: str, rationale: str) -> Failure:
    return Failure("policy", Cause(kind, title, rationale, "What is timed must be what was judged."))
