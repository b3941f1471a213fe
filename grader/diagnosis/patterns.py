"""Find patterns in the wrong values of one call, and the kinds of causes they point to. Tensors in, clues out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from grader.diagnosis.row_factors import row_factors
from grader.judge.clue import Clue, sure
from grader.judge.truth import Expected
from grader.phrases import counted

# A value is another one if it is nearer to that by this factor.
_NEARER = 4
# The share of the wrong elements that must have a pattern.
_ALIKE_SHARE = 0.95
# The same, for patterns that are never chance.
_CERTAIN_SHARE = 0.3
# The same, for elements without a store.
_MOSTLY = 0.5
# Fewer elements than this may all be zero, or equal to something, by chance.
_LEAST_ELEMENTS = 8
# Fewer numbers than this may all have one sign, or another property, by chance.
_LEAST_NUMBERS = 30
_BEYOND = "Which step takes another way for numbers of this size? Compute one such element by hand."
# Fewer numbers in a row than this may all be wrong by chance.
_IN_A_ROW = 15
_ONE_SIGN = "Which step treats the two signs apart, or is a formula for one of them only? Compute one element by hand."
# The number of elements that are enough to estimate a share.
_SAMPLE = 4096
# A value shows a factor if it is at least this many times the allowed error.
_ABOVE_ALLOWED = 20
# The largest rounding error, as a share of the largest value in its row.
_LARGEST_OF_ROW = 2.0**-6
# The largest median of rounding errors, as a share of the elements' own values.
_LARGEST_OF_OWN = 2.0**-3
# Limits of dtypes, to which values are often clamped.
_LIMITS = (65504.0, 448.0, 240.0, 3.4028234663852886e38, 3.3895313892515355e38)
# Normal numbers are no larger than this.
_INFINITE = "Looks like a division by 0, or the exponential of too large a number"
_INFINITE_HELP = "Which step divides, and may the divisor be 0? Which exponent is relative to no maximum, or to -inf?"
_ORDINARY = 16.0
# Fewer rows than this show no factors of rows; and the distance to 1 that a sum in float16 or bfloat16 may give.
_LEAST_ROWS, _ROUNDED_SUM = 2, 2.0**-7
_OF_ROWS = "Looks like one number of each row that is wrong, such as its sum"
_OF_ROWS_HELP = (
    "All elements of a row are multiplied or divided by the same number, as by the row's sum of exponentials: compute "
    "this number by hand for one row, and compare it with yours."
)
# Weight of rounding if the errors are in a few rows.
_IN_A_FEW_ROWS = 0.2
# Weight of a remainder that is as long as all blocks before it: a remainder is shorter than a block.
_LONG_REMAINDER = 0.15
_COARSER = (torch.float16, torch.bfloat16)
# Help for a float32 result: the last conversion does not round it.
_OF_FLOAT32 = (
    "Does a step run in float16, bfloat16 or TF32, or is it an approximation? Has a constant too few digits, such as "
    "1.4427 for log2(e) = 1.4426950408889634?"
)
# The range of relative errors of TF32, with some room for sums.
_TF32 = (2.0**-16, 2.0**-8)
# Blocks are no smaller; and the weight of wrong elements from the second block on: below every other guess.
_LEAST_BLOCK, _LATER = 8, 0.31
_POWERS = tuple(2**i for i in range(15, 0, -1))


@dataclass(frozen=True, eq=False)
class Answer:
    """One output of a call: got, expected, and where it is wrong.

    before: the contents before the call, if the call must change it in place.
    """

    got: Tensor
    wrong: Tensor
    expected: Expected
    before: Tensor | None = None


@dataclass(frozen=True)
class Reach:
    """The elements that programs cover if each takes one block.

    name: the constant with the block size, or all constants of that value. programs: of the whole grid, or along one of
    its axes. beside: the most elements that a program can take along each other axis of an output, if no other programs
    take the rest.
    """

    name: str
    programs: int
    block: int
    beside: float = math.inf

    @property
    def argument(self) -> str:
        """Return the block size as the argument of a function."""
        return self.name if self.name.isidentifier() else str(self.block)

    @property
    def elements(self) -> int:
        """Return the number of elements that all programs cover."""
        return self.programs * self.block


def first_wrong(answers: Sequence[Answer]) -> Answer | None:
    """Return the first output with a wrong element."""
    return next((one for one in answers if bool(one.wrong.any())), None)


def clues_of(
    answers: Sequence[Answer],
    inputs: Sequence[tuple[str, object]],
    *,
    multiplies: bool = True,
    watched: bool = False,
    filled: bool = False,
    rereads: bool = True,
    reaches: Sequence[Reach] = (),
) -> list[Clue]:
    """Return clues of the first wrong output.

    inputs: names and values before the call. multiplies: a kernel may have multiplied matrices. watched: every access
    was checked, and none was outside a tensor. filled: every element of the new outputs was stored, and so was each
    NaN; it has the bits of fresh memory if it came from an exp or an input. rereads: a kernel may have read memory that
    the call allocated. reaches: of the launch, if there was one launch.
    """
    answer = first_wrong(answers)
    if answer is None or not answer.got.dtype.is_floating_point:
        return []
    found = list(_other_values(answer, answers, inputs))
    if found:
        return found
    around = _from_around(answer)
    if bool(around.any()) and float(around[answer.wrong].double().mean()) >= _CERTAIN_SHARE:
        return list(_read_around(answer, around, watched=watched))
    unwritten = _unwritten(answer)
    if not filled and bool(unwritten.any()) and float(unwritten[answer.wrong].double().mean()) >= _ALIKE_SHARE:
        return list(_never_written(answer, unwritten, reaches))
    computed = filled and not rereads
    if not filled and float(unwritten[answer.wrong].double().mean()) >= _MOSTLY:
        # The others are wrong because of them, such as a sum over a part of a row.
        return [*_never_written(answer, unwritten, reaches), *_by_place(answer)]
    return [*_by_value(answer, inputs, multiplies=multiplies, computed=computed), *_by_place(answer)]


# -- values that come from somewhere ---------------------------------------------------------------------------------


def _other_values(answer: Answer, answers: Sequence[Answer], inputs: Sequence[tuple[str, object]]) -> Iterator[Clue]:
    """Yield clues if the answer is known: zeros, an input, another output, or the right values at other indices."""
    got, name = answer.got, answer.expected.name
    many = got.numel() >= _LEAST_ELEMENTS
    if answer.before is None and not bool(got.any()):
        yield Clue(
            "zeros",
            0.9 if many else 0.5,
            f"Every element of {name} is 0.",
            title="The output is all zeros",
            help="It looks as if the store never ran, or stored nothing but zeros.",
        )
        return
    for argument, value in inputs:
        # If no wrong element is finite, those that equal the input may be right: the mean of a single value.
        is_told = answer.before is None and bool((answer.wrong & got.isfinite()).any())
        if is_told and isinstance(value, Tensor) and _is_copy(value, answer):
            yield Clue(
                "copies_input",
                1.0 if many else 0.6,
                f"{name} equals {argument}, bit for bit.",
                confirmed=many and bool((got != got.reshape(-1)[0]).any()),
                title="The output is one of the inputs",
                help=f"It equals `{argument}` bit for bit.",
            )
            return
    for other in answers:
        if other is not answer and other.got.shape == got.shape and _is_of_other(answer, other.expected):
            yield sure("operand_mixed_up", f"The wrong values of {name} are those of {other.expected.name}.")
            return
    if got.dim() >= 2 and got.shape[-1] == got.shape[-2] > 1 and _agrees_transposed(got, answer.expected):
        yield sure("axes_exchanged", f"{name} is right when its last two axes are exchanged.")
        return
    yield from _moved(answer)
    yield from _drawn_from(answer, inputs)
    if answer.before is not None:
        yield from _in_place(answer, answer.before)


def _is_copy(value: Tensor, answer: Answer) -> bool:
    got = answer.got
    if not value.dtype.is_floating_point or value.numel() != got.numel() or not got.numel():
        return False
    return _same(value.reshape(-1).to(got.dtype), got.reshape(-1)) and bool(got.any())


def _same(left: Tensor, right: Tensor) -> bool:
    """Return whether two tensors are equal and not empty; NaN equals NaN."""
    wide, other = left.double(), right.to(left.dtype).double()
    return left.numel() > 0 and bool(((wide == other) | (wide.isnan() & other.isnan())).all())


def _is_of_other(answer: Answer, other: Expected) -> bool:
    """Return whether the wrong values are another output's, and far from their own."""
    got, wrong = answer.got[answer.wrong].double(), answer.wrong
    value, own = other.value[wrong], answer.expected.value[wrong]
    near = (got - value).abs() <= torch.minimum(other.allowed[wrong], (got - own).abs() / _NEARER)
    alike = near | (got == value.to(answer.got.dtype)) | (got.isnan() & value.isnan())
    return got.numel() > 0 and bool(alike.all())


def _agrees_transposed(got: Tensor, expected: Expected) -> bool:
    return bool(((got.double() - expected.value.mT).abs() <= expected.allowed.mT).all())


def _moved(answer: Answer) -> Iterator[Clue]:
    """Yield clues to values that are one place away from their own, along some axis."""
    got, wrong, value = answer.got, answer.wrong, answer.expected.value
    target = value.to(got.dtype)
    for axis in range(got.dim()):
        if got.shape[axis] < 2:
            continue
        for by, where in ((1, "after"), (-1, "before")):
            moved = torch.roll(target, by, axis)
            edge = torch.zeros_like(wrong)
            edge.narrow(axis, 0 if by == 1 else got.shape[axis] - 1, 1).fill_(value=True)
            looked_at = wrong & ~edge
            if answer.before is not None:
                # An element that was not stored has its old value.
                looked_at &= ~_equal(got, answer.before)
            right = _equal(got, moved) & got.isfinite()
            # Zeros, or one number everywhere, belong to no place.
            values = got[looked_at]
            if len(torch.unique(values[values != 0])) >= 2 and float(right[looked_at].double().mean()) >= _ALIKE_SHARE:
                yield sure("position_shifted", f"The values are one place {where} their own, along axis {axis}.")
                return


def _equal(left: Tensor, right: Tensor) -> Tensor:
    return (left == right) | (left.isnan() & right.isnan())


def _drawn_from(answer: Answer, inputs: Sequence[tuple[str, object]]) -> Iterator[Clue]:
    """Yield clues if nearly every wrong value is a value of an input, as right values rarely are."""
    got = answer.got[answer.wrong]
    if answer.before is not None or got.numel() < _LEAST_ELEMENTS:
        return
    for argument, value in inputs:
        if not isinstance(value, Tensor) or not value.dtype.is_floating_point or value.numel() < _LEAST_ELEMENTS:
            continue
        known = value.to(got.dtype).reshape(-1)
        # To search for millions takes a second, mostly for nothing: search for a few first.
        if sum(bool((known == one).any()) for one in got[:: got.numel() // _LEAST_ELEMENTS]) < _LEAST_ELEMENTS - 2:
            continue
        right = answer.expected.value.to(got.dtype).reshape(-1)
        by_chance = torch.isin(_sample(right), known).double().mean()
        if float(by_chance) < 0.6 and float(torch.isin(_sample(got), known).double().mean()) >= _ALIKE_SHARE:
            yield Clue("copies_input", 0.85, f"Every wrong value of {answer.expected.name} is a value of {argument}.")
            return


def _sample(values: Tensor) -> Tensor:
    """Return some thousands of the values, evenly spread."""
    return values[:: max(1, len(values) // _SAMPLE)]


def _in_place(answer: Answer, before: Tensor) -> Iterator[Clue]:
    """Yield clues about an output of which only some elements must change."""
    got, wrong, value, name = answer.got, answer.wrong, answer.expected.value, answer.expected.name
    off = (got.double() - value - before.double())[wrong]
    scale = before.double().abs().nan_to_num(0.0).amax().clamp(min=1e-30)
    if bool(before[wrong].any()) and bool((off.abs() <= 1e-3 * scale).all()):
        yield sure("not_cleared", f"{name} is too large by the values that it held before the call.")
        return
    kept = _equal(before, value.to(before.dtype))
    # Memory that held nothing but NaN had no values to keep.
    if bool(kept[wrong].all()) and not bool(before.isnan().all()):
        yield Clue(
            "writes_beyond", 0.85, f"All {int(wrong.sum())} wrong elements of {name} should have kept their values."
        )


# -- elements that nobody stored -------------------------------------------------------------------------------------


# The bits of a NaN show where it comes from. By dtype: the NaN of fresh memory, the NaN that x86 computes from numbers,
# and the extra bit of a NaN from the bytes around an argument, which are all ones.
_NANS = {
    torch.float32: (torch.int32, 0x7FC00000, 0xFFC00000 - (1 << 32), 0x00200000),
    torch.float16: (torch.int16, 0x7E00, 0xFE00 - (1 << 16), 0x0100),
    torch.bfloat16: (torch.int16, 0x7FC0, 0xFFC0 - (1 << 16), 0x0020),
}


def _bits(answer: Answer) -> tuple[Tensor, int, int, int] | None:
    if answer.got.dtype not in _NANS:
        return None
    whole, fresh, computed, around = _NANS[answer.got.dtype]
    return answer.got.contiguous().view(whole), fresh, computed, around


def _unwritten(answer: Answer) -> Tensor:
    """Mark wrong elements that were probably not stored: unchanged, or the NaN of fresh memory."""
    if answer.before is not None:
        return answer.wrong & _equal(answer.got, answer.before)
    nans = answer.wrong & answer.got.isnan() & answer.expected.value.isfinite()
    bits = _bits(answer)
    return nans if bits is None else nans & (bits[0] == bits[1])


def _from_around(answer: Answer) -> Tensor:
    """Mark wrong elements with the NaN of the memory around an argument."""
    nans = answer.wrong & answer.got.isnan() & answer.expected.value.isfinite()
    bits = _bits(answer)
    if bits is None or answer.got.dtype == torch.bfloat16:
        # A conversion to bfloat16 makes all NaN equal.
        return torch.zeros_like(nans)
    return nans & (bits[0] & bits[3] != 0) & (bits[0] < 0)


def _read_around(answer: Answer, around: Tensor, *, watched: bool) -> Iterator[Clue]:
    """Yield clues to NaN from memory around an argument.

    watched: nothing was loaded from there. The NaN then comes from masked lanes of a load without `other`.
    """
    share = "Every element" if bool(around.all()) else f"{int(around.sum())} of {around.numel()} elements"
    if watched:
        yield Clue(
            "padding_counted",
            0.6,
            f"{share} of {answer.expected.name} came from lanes that a mask leaves out: without `other=` their value "
            "is undefined, and here it is NaN.",
            title="Looks like masked lanes that count, in a load without `other=`",
        )
        # A view of the same memory with another start is a tensor too, and no access outside.
        yield Clue("start_ignored", 0.5 if bool(around.all()) else 0.35)
        return
    evidence = f"{share} of {answer.expected.name} came from memory outside the inputs: NaN is around each of them."
    yield Clue("missing_mask", 0.6, evidence)
    yield Clue("start_ignored", 0.5 if bool(around.all()) else 0.35, evidence)
    yield Clue("strides_ignored", 0.4, evidence)


def _never_written(answer: Answer, unwritten: Tensor, reaches: Sequence[Reach]) -> Iterator[Clue]:
    name, total = answer.expected.name, answer.got.numel()
    if bool(unwritten.all()):
        if answer.before is not None:
            yield Clue("not_cleared", 0.5, f"Every element of {name} is NaN, as it was before the call.")
        else:
            yield Clue("not_cleared", 0.42, f"Every element of {name} is NaN, as fresh memory is.")
        if total >= _LEAST_ELEMENTS:
            yield Clue("zeros", 0.45, f"Nothing was stored to {name}, or every element was computed from NaN.")
        yield Clue("remainder_skipped", 0.3, f"{name} is NaN, as memory is before the first store.")
        return
    if answer.before is not None and bool(_equal(answer.got, answer.before).all()):
        evidence = (
            f"All {int(unwritten.sum())} elements of {name} that should change hold what they held before the call."
        )
        yield Clue("zeros", 0.8, evidence)
        return
    shape = answer.got.shape
    for axis, size in enumerate(shape):
        lines = unwritten.movedim(axis, 0).reshape(size, -1)
        any_of, all_of = lines.any(1), lines.all(1)
        first = int(any_of.double().argmax())
        if not bool((any_of == all_of).all()) or not bool(all_of[first:].all()) or first == 0:
            continue
        left = size - first
        evidence = f"The last {left} of {size}" if left > 1 else "The last"
        evidence = f"{evidence} along axis {axis} of {name} {'were' if left > 1 else 'was'} never stored to."
        yield from _by_reach(first, size, _whole(reaches, shape, axis))
        yield from _end_unwritten(first, left, evidence)
        yield Clue("not_all_covered", 0.35, evidence)
        return
    for axis, first in _box_ends(unwritten):
        evidence = f"From index {first} on, nothing along axis {axis} of {name} was ever stored to."
        yield from _by_reach(first, shape[axis], _whole(reaches, shape, axis))
        yield from _end_unwritten(first, unwritten.shape[axis] - first, evidence)
    ragged = _last_rows(unwritten)
    if ragged:
        yield Clue("remainder_skipped", 0.5, f"{ragged} of {name} were never stored to.")
    yield Clue("not_all_covered", 0.55, f"{int(unwritten.sum())} of {total} elements of {name} were never stored to.")


def _box_ends(unwritten: Tensor) -> list[tuple[int, int]]:
    """Return each axis whose end was not stored, with its first missing index, if a box from index 0 was stored."""
    written = ~unwritten
    sides = []
    for axis, size in enumerate(written.shape):
        lines = written.movedim(axis, 0).reshape(size, -1).any(1)
        sides.append(int(lines.sum()))
    box = written[tuple(slice(0, side) for side in sides)]
    if not box.numel() or not bool(box.all()) or int(written.sum()) != box.numel():
        return []
    return [(axis, side) for axis, side in enumerate(sides) if side < written.shape[axis]]


def _whole(reaches: Sequence[Reach], shape: Sequence[int], axis: int) -> list[Reach]:
    """Return the reaches along an axis whose programs can cover all of the other axes.

    The programs of a flat grid share the tiles of both axes of a matrix.
    """
    widest = max((size for other, size in enumerate(shape) if other != axis), default=1)
    found = [one for one in reaches if widest <= one.beside]
    all_programs = max((one.programs for one in reaches), default=0)
    tiles = [(one, -(-widest // other.block)) for one in reaches for other in reaches if one.name != other.name]
    shared = [
        Reach(one.name, one.programs // beside, one.block)
        for one, beside in tiles
        if len(shape) == 2 and one not in found and one.programs == all_programs and not one.programs % beside
    ]
    return [*found, *shared]


def _by_reach(first: int, size: int, reaches: Sequence[Reach]) -> Iterator[Clue]:
    """Yield the clue of a grid that explains why the elements from index `first` on are missing."""
    left = size - first
    for one in reaches:
        if one.elements == first and left < one.block:
            advice = f"Round the number of programs up: triton.cdiv(n, {one.argument})."
            yield Clue("remainder_skipped", 0.9, f"{_covered(one)} of {size:,}.", help=advice, firm=True)
            return
    for one in reaches:
        # Another block size may give the same number by chance: a remainder is likelier.
        if one.elements == first:
            advice = f"How many programs do {size:,} elements need? triton.cdiv(n, {one.argument}), with the right n."
            weight = 0.75 if one.programs > 1 else 0.55
            evidence = f"{_covered(one)} of {size:,}."
            yield Clue("not_all_covered", weight, evidence, help=advice, firm=True, in_launch=True)
            return
    for one in reaches:
        if one.programs > 1 and first % one.elements == 0 and left < one.elements < first:
            rounds = f"{_covered(one)} in a step of a loop, and {first // one.elements} whole steps were stored"
            advice = "The last step of the loop may have work for some programs only: round the steps up, and mask."
            yield Clue("remainder_skipped", 0.85, f"{rounds}.", help=advice, firm=True)
            return


def _covered(one: Reach) -> str:
    programs, block = counted(one.programs, "program"), counted(one.block, "element")
    return f"{programs} × {block} ({one.name}) cover{'s' if one.programs == 1 else ''} {one.elements:,}"


def _end_unwritten(first: int, left: int, evidence: str) -> Iterator[Clue]:
    """Yield clues by the place of an end that is missing. first: its first index. left: its length."""
    block = next((power for power in _POWERS if first % power == 0), 1)
    if left == 1:
        yield Clue("last_left_out", 0.7, evidence)
        yield Clue("remainder_skipped", 0.4, evidence)
    else:
        # A remainder is shorter than a block, and a block divides its start.
        weight = 0.75 if block >= 4 and left < block else 0.45
        yield Clue("remainder_skipped", weight if left < first else _LONG_REMAINDER, evidence)
    if (block >= 512 and left >= block // 8) or left >= block == first >= 4:
        yield Clue("size_assumed", 0.35 if left < block else 0.6, evidence)


def _last_rows(unwritten: Tensor) -> str:
    """Return words for missing elements that are the last ones in memory; "" for others."""
    flat = unwritten.reshape(-1)
    count = int(flat.sum())
    return f"The last {count} elements" if bool(flat[-count:].all()) else ""


# -- what is wrong with the numbers ----------------------------------------------------------------------------------


def _by_value(
    answer: Answer, inputs: Sequence[tuple[str, object]], *, multiplies: bool, computed: bool
) -> Iterator[Clue]:
    got, wrong, expected = answer.got.double(), answer.wrong, answer.expected
    value, name = expected.value, expected.name
    # TF32 is for float32 operands.
    exact = multiplies and all(
        one.dtype in (torch.float32, torch.int32, torch.int64) for _, one in inputs if isinstance(one, Tensor)
    )
    bad, true = got[wrong], value[wrong]
    if not bool(bad.any()) and not bool(true.any()):
        yield sure(
            "value_shortcut",
            f"The wrong elements of {name} are zeros of the other sign.",
            title="A zero loses its sign",
            help_text="Which step computes with a value that it should only copy? -0.0 + 0 is 0.",
        )
        return
    limit = float(bad.abs().amax()) if bool(bad.isfinite().all()) else 0.0
    if float(bad.abs().amin()) == limit > 1 and (bad.numel() > 2 or limit in _LIMITS):
        beyond = (true.abs() > limit) | true.isnan()
        if bool(beyond.all()) and bool((bad.sign() == true.sign())[~true.isnan()].all()):
            yield sure("clamped", f"No element of {name} goes beyond ±{limit:g}, and those that should are ±{limit:g}.")
            return
    not_finite = ~bad.isfinite() & true.isfinite()
    if bool(not_finite.any()):
        share = float(not_finite.double().mean())
        bits = _bits(answer)
        computed |= bool(bad[not_finite].isinf().any()) or (
            bits is not None and bool((bits[0][wrong][not_finite] == bits[2]).any())
        )
        fresh = bits is not None and bool((bits[0] == bits[1]).all())
        if computed and fresh and _largest(inputs) <= _ORDINARY:
            stored = f"Every element of {name} was stored, and is NaN; the inputs are numbers of ordinary size."
            yield Clue("inf_minus_inf", 0.55, stored)
        elif fresh and answer.before is None:
            # Something was added to fresh memory, or computed from it.
            evidence = f"Every element of {name} is NaN, as fresh memory is."
            infinite = next((argument for argument, one in inputs if _holds_infinity(one)), "")
            if infinite:
                yield Clue("inf_minus_inf", 0.6, f"{infinite} has elements that are -inf.")
            yield Clue("not_cleared", 0.2 if infinite else 0.45, evidence, firm=True)
        words = "infinite" if bool(bad[not_finite].isinf().all()) else "NaN"
        weight = (0.5 if computed else 0.3) * (1.0 if share >= _ALIKE_SHARE else 0.7)
        if bool(bad[not_finite].isnan().all()) and _largest(inputs) <= _ORDINARY:
            # Numbers of this size do not overflow: 0 / 0 or inf - inf is likelier.
            weight /= 2
        evidence = f"{name} is {words} where it should be finite."
        if words == "infinite" and _largest(inputs) <= _ORDINARY:
            evidence = f"{evidence} The inputs are numbers of ordinary size."
            yield Clue("overflow", weight, evidence, title=_INFINITE, help=_INFINITE_HELP)
        else:
            yield Clue("overflow", weight, evidence)
    if bool(true.isnan().any() | true.isinf().any()) and bool(got[value.isfinite()].isfinite().all()):
        only = ~true.isfinite()
        if bool(only.all()):
            yield Clue("value_shortcut", 0.4, f"{name} is wrong only where infinities or NaN go in.")
    yield from [*_beyond(answer)] or [*_one_sign(answer)]
    yield from [*_ratio(answer)] or [*_ratio_of_rows(answer)] or _rounding(answer, exact=exact)


def _one_sign(answer: Answer) -> Iterator[Clue]:
    """Yield a clue if only values of one sign are wrong."""
    value, wrong = answer.expected.value, answer.wrong
    for sign, of_sign, others in (("negative", value < 0, value > 0), ("positive", value > 0, value < 0)):
        many = min(int((wrong & of_sign).sum()), int(others.sum())) >= _LEAST_NUMBERS
        if many and not bool((wrong & ~of_sign).any()) and float(wrong[of_sign].double().mean()) >= _CERTAIN_SHARE:
            evidence = (
                f"Only {sign} elements of {answer.expected.name} are wrong: all {int(others.sum())} others are right."
            )
            title = f"Looks like a step that is wrong where the result is {sign}"
            yield Clue("value_shortcut", 0.85, evidence, title=title, help=_ONE_SIGN)


def _beyond(answer: Answer) -> Iterator[Clue]:
    """Yield a clue if only values beyond some number are wrong, wherever they are."""
    value, wrong, name = answer.expected.value, answer.wrong, answer.expected.name
    if _has_place(wrong):
        return
    known = value.isfinite() & (value != 0)
    ordered, order = value[known].sort()
    flags = wrong[known][order]
    for where, values, bad in (("below", ordered, flags), ("above", ordered.flip(0), flags.flip(0))):
        first = int(bad.double().argmax()) if bool(bad.any()) else 0
        run = values[first : first + _IN_A_ROW]
        distinct = run.numel() == _IN_A_ROW and bool((run.diff() != 0).all())
        sharp = distinct and bool(bad[first : first + _IN_A_ROW].all())
        if first < _LEAST_NUMBERS or not sharp:
            continue
        # At zero, the sign says more.
        if values[first] == values[first - 1] or values[first] * values[first - 1] <= 0:
            continue
        limit = float(values[first])
        evidence = f"No element of {name} {where} {limit:.4g} is wrong, and the {_IN_A_ROW} next to it all are."
        title = "Looks like a step that is wrong for some numbers only"
        yield Clue("value_shortcut", 0.85, evidence, title=title, help=_BEYOND)
        return


def _holds_infinity(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and bool(value.isneginf().any())


def _largest(inputs: Sequence[tuple[str, object]]) -> float:
    """Return the largest magnitude among the inputs' finite numbers."""
    values = [one.double() for _, one in inputs if isinstance(one, Tensor) and one.is_floating_point() and one.numel()]
    return max((float(one.where(one.isfinite(), 0.0).abs().max()) for one in values), default=0.0)


def _ratio(answer: Answer) -> Iterator[Clue]:
    """Yield a clue to a constant factor, if values are large enough to show it."""
    got, value, wrong = answer.got.double(), answer.expected.value, answer.wrong
    telling = wrong & got.isfinite() & (value.abs() > _ABOVE_ALLOWED * answer.expected.allowed) & value.isfinite()
    if int(telling.sum()) < _LEAST_ELEMENTS or float(telling.sum()) < 0.5 * float(wrong.sum()):
        return
    ratios = got[telling] / value[telling]
    middle = float(ratios.median())
    spread = (ratios - middle).abs() * value[telling].abs()
    allowed = 4 * answer.expected.allowed[telling] + 2 * torch.finfo(answer.got.dtype).eps * value[telling].abs()
    if abs(middle - 1) > 0.02 and abs(middle) > 1e-6 and float((spread <= allowed).double().mean()) >= _ALIKE_SHARE:
        share = "Every" if bool(wrong.all()) else "Every wrong"
        yield Clue("wrong_factor", 0.85, f"{share} element is {middle:.4g} times what it should be.")


def _ratio_of_rows(answer: Answer) -> Iterator[Clue]:
    """Yield a clue if every wrong row is right except for a factor of its own.

    A sum that is rounded gives such factors too: they lie near 1, on both sides of it. An element without a store has
    no factor.
    """
    factors = row_factors(answer.got, answer.expected.value, answer.expected.allowed)
    if factors is None or len(factors) < _LEAST_ROWS or bool(_unwritten(answer).any()):
        return
    least, most = float(factors.min()), float(factors.max())
    if least < 1 < most and max(1 - least, most - 1) < _ROUNDED_SUM:
        return
    evidence = (
        f"Each wrong row of {answer.expected.name} is right except for one factor: from {least:.4g} in one row to "
        f"{most:.4g} in another."
    )
    yield Clue("wrong_factor", 0.85, evidence, title=_OF_ROWS, help=_OF_ROWS_HELP)


def _rounding(answer: Answer, *, exact: bool) -> Iterator[Clue]:
    """Yield clues to errors that are small compared with the values around them.

    exact: a kernel multiplied matrices, of float32 or whole numbers.
    """
    got, value, wrong = answer.got.double(), answer.expected.value, answer.wrong
    if (
        1 < got.numel() < _LEAST_ELEMENTS
        or not bool(got[wrong].isfinite().all())
        or not bool(value[wrong].isfinite().all())
    ):
        return
    size = value.nan_to_num(0.0, 0.0, 0.0).abs()
    around = size.amax(-1, keepdim=True).expand(size.shape) if size.dim() else size
    off = ((got - value).abs() / around.clamp(min=1e-300))[wrong]
    if coarse := next((dtype for dtype in _COARSER if _holds(dtype, answer)), None):
        yield sure("rounded_intermediate", f"Every value is exactly a {str(coarse).removeprefix('torch.')} number.")
        return
    if float(off.quantile(0.95) if off.numel() < 1 << 20 else off.amax()) > _LARGEST_OF_ROW:
        return
    own = (got - value).abs()[wrong] / size[wrong].clamp(min=1e-300)
    if float(own.median()) > _LARGEST_OF_OWN:
        return
    typical = float(off.median())
    placed = _has_place(wrong)
    where = "" if placed else ", and are anywhere"
    evidence = f"The errors are small, about {typical:.0e} of the values around them{where}."
    rounded = Clue("rounded_intermediate", 0.5, evidence, help=_OF_FLOAT32 if answer.got.dtype == torch.float32 else "")
    if placed:
        # Rounding rarely affects only a few rows.
        yield replace(rounded, weight=_IN_A_FEW_ROWS)
        yield Clue("low_precision_sum", _IN_A_FEW_ROWS, evidence)
        return
    if answer.got.dtype == torch.float32 and exact:
        low, high = _TF32
        if low <= typical <= high:
            yield Clue("tf32", 0.5, evidence)
        yield replace(rounded, weight=0.4)
        yield Clue("low_precision_sum", 0.4, evidence)
    else:
        yield rounded
        yield Clue("low_precision_sum", 0.5, evidence)


def _has_place(wrong: Tensor) -> bool:
    """Return whether the wrong elements are on far fewer lines of an axis than by chance."""
    count = int(wrong.sum())
    for axis, size in enumerate(wrong.shape):
        hit = int(wrong.movedim(axis, 0).reshape(size, -1).any(1).sum())
        if count >= _LEAST_ELEMENTS and hit < 0.25 * size * (1 - (1 - 1 / size) ** count):
            return True
    return False


def _holds(dtype: torch.dtype, answer: Answer) -> bool:
    """Return whether a coarser dtype holds every value of the answer, but not the right values."""
    got, value = answer.got, answer.expected.value
    if torch.finfo(dtype).eps <= torch.finfo(got.dtype).eps or int(answer.wrong.sum()) < _LEAST_ELEMENTS:
        return False
    target = value.to(got.dtype)
    near = (value - got.double()).abs() <= 2 * torch.finfo(dtype).eps * value.abs()
    return (
        bool(near.all())
        and torch.equal(got.to(dtype).to(got.dtype), got)
        and not torch.equal(target.to(dtype).to(got.dtype), target)
    )


def _by_place(answer: Answer) -> Iterator[Clue]:
    """Yield clues by the place of the wrong elements."""
    wrong, name = answer.wrong, answer.expected.name
    if wrong.dim() == 0 or bool(wrong.all()):
        return
    for axis, size in enumerate(wrong.shape):
        lines = wrong.movedim(axis, 0).reshape(size, -1).any(1)
        count = int(lines.sum())
        if size < 2 or count == size:
            continue
        where = f"along axis {axis} of {name}"
        if bool(lines[-count:].all()):
            evidence = (
                f"Only the last {count} of {size} {where} are wrong."
                if count > 1
                else f"Only the last {where} is wrong."
            )
            yield Clue("missing_mask", 0.45, evidence)
            yield Clue("remainder_skipped", 0.25, evidence)
            if count == 1:
                yield Clue("last_left_out", 0.35, evidence)
            elif (size - count) % _LEAST_BLOCK == 0:
                yield Clue("later_blocks", _LATER, evidence)
        elif bool(lines[:count].all()):
            yield Clue("position_shifted", 0.2, f"Only the first {count} of {size} {where} are wrong.")
        return
