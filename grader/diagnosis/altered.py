"""Find outputs that equal the oracle's on wrongly read inputs, or right results that are stored by wrong strides.

A kernel that reads x for y, the first block in every step, or a tensor by the strides of another one computes the
right formula on other numbers. So the oracle of every exercise gives the values of these mistakes, without a line about
them. Small calls only: the oracle computes each of them some hundred times.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, combinations, product

import torch
from torch import Tensor

from grader.diagnosis.known_mistakes import agree, explains_all, passing_like
from grader.exercise.tensors import dtype_name
from grader.judge.bench import Bench
from grader.judge.clue import Clue, sure
from grader.judge.failure import Failure, WrongCall
from grader.judge.truth import Expected
from grader.phrases import all_of
from grader.protocol.observations import LaunchInfo
from grader.protocol.trace import span

# Block sizes that a loop may have, besides those of the launch.
_USUAL_BLOCKS = (16, 32, 64, 128)
# Blocks that a loop steps over are smaller than this.
_LONGEST_STEP = 1024
# Tensors with more axes have too many pairs of axes.
_MOST_AXES = 4

# Number of failing calls that a mistake must explain.
_CALLS = 2
# Fewer numbers do not tell one rounding from another.
_TELLING = 8
# The weight of an end of an argument that is left out, and its words. That end has as many lengths in this many calls
# where the size of another axis is more than chance.
_SUFFIX, _WITHOUT, _CUTS = 0.8, "Looks like a loop without ", 2
# Larger constants of a launch are lengths.
_LARGEST_BLOCK = 1 << 14
# Seconds of CPU time for the search of one check. CPU time, so that a busy machine finds the same.
_MOST_S = 3.0

# Returns the altered value of an argument; None if the alteration does not fit it.
_Alter = Callable[[Tensor], Tensor | None]


@dataclass(frozen=True)
class Alteration:
    """One wrong way to read an argument, or several of one shape.

    arguments: their positions. alter: returns what is read in place of one of them, from all inputs and its position.
    """

    kind: str
    title: str
    help: str
    arguments: tuple[int, ...]
    alter: Callable[[Sequence[object], int], Tensor | None]

    def applied(self, inputs: Sequence[object]) -> list[object] | None:
        """Return the inputs as the mistake reads them; None if it changes nothing."""
        altered = list(inputs)
        for place in self.arguments:
            before, instead = inputs[place], self.alter(inputs, place)
            if instead is None or not isinstance(before, Tensor) or torch.equal(instead, before):
                return None
            altered[place] = instead
        return altered


@dataclass(frozen=True)
class Stored:
    """One result, stored by the strides of an argument. output, argument: positions."""

    output: int
    argument: int
    title: str
    help: str
    kind: str = "strides_ignored"

    def outputs(self, right: Sequence[Tensor], inputs: Sequence[object]) -> tuple[Tensor, ...] | None:
        """Return the outputs of a call with these right results; None if these strides lead to the right places."""
        result, by = right[self.output], inputs[self.argument]
        if not isinstance(by, Tensor) or by.dim() != result.dim():
            return None
        placed = _scattered(result, by.stride())
        return None if placed is None else (*right[: self.output], placed, *right[self.output + 1 :])


_Mistake = Alteration | Stored


def stored_by_others(outputs: Sequence[str], names: Sequence[str], inputs: Sequence[object]) -> Iterator[Stored]:
    """Yield the results stored by the strides of each argument with as many axes."""
    for (output, result), (argument, name) in product(enumerate(outputs), enumerate(names)):
        if isinstance(inputs[argument], Tensor) and name:
            title = f"Looks as if {result} is stored by the strides of {name}"
            advice = f"Pass {result}'s own strides to the kernel, and multiply its indices by them."
            yield Stored(output, argument, title, advice)


def alterations(names: Sequence[str], inputs: Sequence[object], blocks: Sequence[int]) -> Iterator[Alteration]:
    """Yield the wrong ways to read each tensor among the inputs, the simplest first.

    names: of the arguments; '' for one that must not be altered. blocks: sizes in the launch.
    """
    tensors = [(i, value) for i, value in enumerate(inputs) if isinstance(value, Tensor) and names[i] and value.dim()]
    for i, value in tensors:
        yield from _others(i, value, tensors, names)
    # Before exchanged axes: if one tensor has the layout of another one's transpose, both read the same elements.
    yield from _by_strides_of(tensors, names, same_shape=True)
    several: list[tuple[int, ...]] = [(i,) for i, _ in tensors]
    # Operands of one shape are often read in the same wrong way.
    alike = {
        (value.shape, value.dtype): tuple(i for i, one in tensors if one.shape == value.shape) for _, value in tensors
    }
    several += [places for places in alike.values() if len(places) > 1]
    for places in several:
        name, value = all_of([names[i] for i in places]), dict(tensors)[places[0]]
        yield from _first_only(places, value, name, blocks)
        yield from _shifted(places, value, name)
        if len(places) == 1:
            yield from _stepped(places, value, name, blocks)
        yield from _placed(places, value, name)
        if value.is_floating_point():
            yield from _rounded(places, value, name)
            yield Alteration(
                "wrong_factor",
                f"Looks as if {name} has the wrong sign",
                f"Follow the sign of {name} from the load to the result.",
                places,
                _each(lambda one: -one),
            )
    yield from _by_strides_of(tensors, names, same_shape=False)
    yield from _by_sizes_of(tensors, names)


def altered_clues(bench: Bench, failures: Sequence[Failure]) -> list[Clue]:
    """Return the clue of an alteration that gives the wrong values of a check and leaves passing cases right.

    The smallest failing calls are compared.
    """
    part, until = bench.part, time.thread_time() + _MOST_S
    calls = [one.wrong_call for one in failures if one.wrong_call is not None and one.cause.mismatch is not None]
    calls = sorted((one for one in calls if one.recipe.part == part.name and _tells(one)), key=_size)
    names = [name if name not in part.mutates else "" for name in part.arguments]
    for wrong_call in calls[:_CALLS]:
        inputs, answers = bench.truth.inputs(wrong_call.recipe), list(wrong_call.answers())
        found = []
        reads = alterations(names, inputs, blocks_of(wrong_call.outcome.answer.launches))
        ways: Iterator[_Mistake] = chain(stored_by_others(part.outputs, names, inputs), reads)
        for one in ways:
            if time.thread_time() > until:
                break
            if _gives(one, bench, answers, inputs):
                found.append(one)
        others = [each for each in calls[: _CALLS + 1] if each is not wrong_call]
        ends: list[Clue] = []
        for one in found:
            shows = all(_gives(one, bench, list(each.answers()), bench.truth.inputs(each.recipe)) for each in others)
            if shows and not _fails_passing(one, bench, wrong_call):
                told = [wrong_call, *others]
                if (end := _left_out(one, inputs, names)) and len({*_cuts(one, bench, told)}) < _CUTS:
                    # Any reason to leave out this end gives these values: whose length it is may be chance.
                    evidence = f"The values are those without {end}."
                    ends = ends or [Clue("block_left_out", _SUFFIX, evidence, title=_WITHOUT + end)]
                    continue
                kind = (
                    "wrong_address"
                    if isinstance(one, Alteration) and _by_program(one, wrong_call, inputs)
                    else one.kind
                )
                clue = sure(kind, "The values are those of this mistake.", one.title, one.help)
                return [replace(clue, by_known_mistake=True, of_inputs=True)]
        if ends:
            return ends
    return []


def _cuts(one: _Mistake, bench: Bench, calls: Sequence[WrongCall]) -> Iterator[tuple[int, int]]:
    """Yield the place and the length of the end that is zero in each call, for an alteration that only zeros an end."""
    for each in calls:
        inputs = bench.truth.inputs(each.recipe)
        altered = one.applied(inputs) if isinstance(one, Alteration) else None
        if altered is not None and isinstance(one, Alteration):
            found = _zeroed_end(inputs[one.arguments[0]], altered[one.arguments[0]])
            if found is not None:
                yield found[1:]


def _left_out(one: _Mistake, inputs: Sequence[object], names: Sequence[str]) -> str:
    """Return words for the end of an argument that an alteration makes zero, where it changes nothing else; else ""."""
    altered = one.applied(inputs) if isinstance(one, Alteration) and len(one.arguments) == 1 else None
    if altered is None or not isinstance(one, Alteration):
        return ""
    place = one.arguments[0]
    found = _zeroed_end(inputs[place], altered[place])
    if found is None:
        return ""
    axis, left, size = found
    return f"the last {left} of {size} along axis {axis} of {names[place]}"


def _zeroed_end(before: object, after: object) -> tuple[int, int, int] | None:
    """Return the axis whose end is zero in a tensor and was not before, with the lengths of the end and the axis."""
    if not isinstance(before, Tensor) or not isinstance(after, Tensor):
        return None
    changed = (before != after) & ~(before.isnan() & after.isnan())
    for axis, size in enumerate(before.shape):
        lines = changed.movedim(axis, 0).reshape(size, -1).any(1)
        first = int(lines.double().argmax())
        end = after.narrow(axis, first, size - first)
        if first > 0 and bool(lines[first:].all()) and not bool(end.any()):
            return axis, size - first, size
    return None


def _tells(wrong_call: WrongCall) -> bool:
    """Return whether the wrong values tell one mistake from another: some are finite, and not all are one number.

    Any mistake by which all scores of a row are equal gives 1 / N.
    """
    wrong = [got[marks] for got, marks, _ in wrong_call.answers() if bool(marks.any())]
    return any(
        bool(values.isfinite().any()) and bool(values.any()) and (len(values) == 1 or bool((values != values[0]).any()))
        for values in wrong
    )


def _size(wrong_call: WrongCall) -> int:
    return sum(output.value.numel() for output in wrong_call.expected)


def blocks_of(launched: Sequence[LaunchInfo]) -> list[int]:
    """Return the block sizes among the constants of launches."""
    return sorted({size for one in launched for size in one.constants.values() if 1 < size <= _LARGEST_BLOCK})


def _gives(
    one: _Mistake, bench: Bench, answers: Sequence[tuple[Tensor, Tensor, Expected]], inputs: Sequence[object]
) -> bool:
    """Return whether a call's answers are those of a mistake."""
    outputs = _outputs(one, bench, inputs, [output for _, _, output in answers])
    return outputs is not None and explains_all(outputs, answers)


def _outputs(
    one: _Mistake, bench: Bench, inputs: Sequence[object], right: Sequence[Expected]
) -> tuple[Tensor, ...] | None:
    if isinstance(one, Stored):
        return one.outputs([output.value for output in right], inputs)
    altered = one.applied(inputs)
    if altered is None:
        return None
    try:
        return bench.truth.answer(bench.part, altered)
    except (RuntimeError, IndexError, ValueError):
        # The oracle may raise on inputs that no case has.
        return None


def _fails_passing(one: _Mistake, bench: Bench, wrong_call: WrongCall) -> bool:
    """Return whether a mistake would fail one of the passing cases that are most like the failing one."""
    for recipe in passing_like(bench, wrong_call):
        right = bench.truth.expect(bench.part, recipe)
        outputs = _outputs(one, bench, bench.truth.inputs(recipe), right)
        if outputs is not None and not agree(outputs, right):
            return True
    return False


def _by_program(one: Alteration, wrong_call: WrongCall, inputs: Sequence[object]) -> bool:
    """Return whether other programs, and not steps of a loop, read a block again.

    The output then has that axis too, and is right where the block belongs.
    """
    value = inputs[one.arguments[0]]
    if one.kind != "not_advanced" or not isinstance(value, Tensor):
        return False
    for got, wrong, _ in wrong_call.answers():
        for axis, size in enumerate(got.shape):
            lines = wrong.movedim(axis, 0).reshape(size, -1).any(1) if size in value.shape else None
            if lines is not None and not bool(lines[0]) and bool(lines.any()):
                return True
    return False


def _each(alter: _Alter) -> Callable[[Sequence[object], int], Tensor | None]:
    def altered(inputs: Sequence[object], place: int) -> Tensor | None:
        value = inputs[place]
        return alter(value) if isinstance(value, Tensor) else None

    return altered


def _others(
    place: int, value: Tensor, tensors: Sequence[tuple[int, Tensor]], names: Sequence[str]
) -> Iterator[Alteration]:
    """Yield each tensor of the same shape and dtype, read in place of this one."""
    for other, instead in tensors:
        if other == place or instead.shape != value.shape or instead.dtype != value.dtype:
            continue

        def read(inputs: Sequence[object], place: int, other: int = other) -> Tensor | None:
            found, own = inputs[other], inputs[place]
            if not isinstance(found, Tensor) or not isinstance(own, Tensor):
                return None
            return found if found.shape == own.shape else None

        yield Alteration(
            "operand_mixed_up",
            f"Looks as if {names[other]} is read in place of {names[place]}",
            f"Which pointer does the load of {names[place]} use, and which tensor does the launch pass there?",
            (place,),
            read,
        )


def _first_only(places: tuple[int, ...], value: Tensor, name: str, blocks: Sequence[int]) -> Iterator[Alteration]:
    """Yield the first block of an axis, read in every step along the axis."""
    sizes = sorted({*blocks, *_USUAL_BLOCKS} if value.is_floating_point() else {1})
    for axis in range(value.dim() - 1, -1, -1):
        for block in (*sizes, 1) if 1 not in sizes else sizes:
            if block >= value.shape[axis]:
                continue

            def repeated(one: Tensor, axis: int = axis, block: int = block) -> Tensor | None:
                if axis >= one.dim() or block >= one.shape[axis]:
                    return None
                return one.index_select(axis, torch.arange(one.shape[axis]) % block)

            what = f"the first {block} along axis {axis} of {name} are" if block > 1 else f"index 0 of axis {axis} is"
            of = "" if block > 1 else f" for all of {name}"
            yield Alteration(
                "not_advanced",
                f"Looks as if {what} read again and again{of}",
                f"Which part of {name} does the next step of the loop read, and which part the next program? Move the "
                "pointer on, or compute the offset again.",
                places,
                _each(repeated),
            )


def _shifted(places: tuple[int, ...], value: Tensor, name: str) -> Iterator[Alteration]:
    """Yield a tensor that is read one element too far, or too early, along an axis."""
    for axis, by in ((axis, by) for axis in range(value.dim()) for by in (-1, 1)):
        if value.shape[axis] < 2:
            continue

        def rolled(one: Tensor, axis: int = axis, by: int = by) -> Tensor | None:
            return torch.roll(one, by, axis) if axis < one.dim() else None

        where = "one further on" if by < 0 else "one before"
        yield Alteration(
            "position_shifted",
            f"Looks as if {name} {_verb(places)} read {where} along axis {axis}",
            f"From which index of {name} do you compute element 0?",
            places,
            _each(rolled),
        )


def _stepped(places: tuple[int, ...], value: Tensor, name: str, blocks: Sequence[int]) -> Iterator[Alteration]:
    """Yield a tensor whose blocks are read from wrong places. Beyond the tensor there are zeros."""
    sizes = [block for block in blocks if block < _LONGEST_STEP]
    for axis, block in ((axis, block) for axis in range(value.dim() - 1, -1, -1) for block in sizes):
        if block >= value.shape[axis]:
            continue
        of = f"blocks of {block} along axis {axis} of {name}"
        # A tile has the last two axes.
        for other in range(max(value.dim() - 2, 0), value.dim()):
            if other != axis and value.is_floating_point():
                yield Alteration(
                    "axes_exchanged",
                    f"Looks as if a step along axis {axis} of {name} moves along axis {other}",
                    f"Which axis of {name} does the loop walk along? Move the pointer, or the offset, along that one.",
                    places,
                    _each(partial(_along_other, axis=axis, other=other, block=block)),
                )
        for what, find, advice in _WRONG_STARTS:
            yield Alteration(
                "wrong_address",
                f"Looks as if {of} {what}",
                advice,
                places,
                _each(partial(_found_at, axis=axis, block=block, find=find)),
            )


# Wrong starts of blocks: words for the card, the start of block `n` of `size`, and advice.
_WRONG_STARTS: tuple[tuple[str, Callable[[Tensor, int], Tensor], str], ...] = (
    ("start at their number", lambda n, size: n, "A block starts at its number times its size."),
    ("are two blocks apart", lambda n, size: 2 * n * size, "Does something move the pointer, or the offset, twice?"),
    ("start one block late", lambda n, size: (n + 1) * size, "Which offset does the first step have?"),
    (
        "come twice, and every second one is left out",
        lambda n, size: n // 2 * 2 * size,
        "Which index does the second half of a tile use, in every load and store?",
    ),
)


def _found_at(one: Tensor, axis: int, block: int, find: Callable[[Tensor, int], Tensor]) -> Tensor | None:
    """Return a tensor whose blocks along an axis are read from wrong starts; None if only zeros are read."""
    if axis >= one.dim() or block >= one.shape[axis]:
        return None
    places = torch.arange(one.shape[axis])
    wrong = find(places // block, block) + places % block
    if bool((wrong[wrong != places] >= one.shape[axis]).all()):
        return None
    return _zero_beyond(one.index_select(axis, wrong.clamp(max=one.shape[axis] - 1)), axis, wrong < one.shape[axis])


def _along_other(one: Tensor, axis: int, other: int, block: int) -> Tensor | None:
    """Return a tensor that is read in blocks along one axis, where each step moves along another axis."""
    if max(axis, other) >= one.dim() or block >= one.shape[axis]:
        return None
    parts = []
    for start in range(0, one.shape[axis], block):
        long = min(block, one.shape[axis] - start)
        moved = torch.arange(one.shape[other]) + start
        part = one.narrow(axis, 0, long).index_select(other, moved.clamp(max=one.shape[other] - 1))
        parts.append(_zero_beyond(part, other, moved < one.shape[other]))
    return torch.cat(parts, axis)


def _zero_beyond(one: Tensor, axis: int, inside: Tensor) -> Tensor:
    """Return a tensor with zeros where an index along an axis is not inside."""
    sides = [1] * one.dim()
    sides[axis] = -1
    return one.where(inside.view(sides), torch.zeros((), dtype=one.dtype))


def _placed(places: tuple[int, ...], value: Tensor, name: str) -> Iterator[Alteration]:
    """Yield a tensor that is read by other strides, which stay inside its memory."""
    if not 2 <= value.dim() <= _MOST_AXES:
        return
    # It comes first: other strides of an axis of length 1 make the same memory of it.
    yield Alteration(
        "strides_ignored",
        f"Looks as if {name} {_verb(places)} taken to be contiguous",
        f"How far apart do neighbours in {name} lie? Use its own strides.",
        places,
        _each(lambda one: _by_strides(one, torch.empty(one.shape, device="meta").stride())),
    )
    for first, second in combinations(range(value.dim()), 2):

        def exchanged(one: Tensor, first: int = first, second: int = second) -> Tensor | None:
            return _by_strides(one, _swapped(one.stride(), first, second)) if one.dim() > second else None

        def laid_out(one: Tensor, first: int = first, second: int = second) -> Tensor | None:
            if one.dim() <= second:
                return None
            sides = torch.empty(_swapped(one.shape, first, second), device="meta").stride()
            return _by_strides(one, _swapped(sides, first, second))

        for alter in (exchanged, laid_out):
            yield Alteration(
                "axes_exchanged",
                f"Looks as if axes {first} and {second} of {name} are exchanged",
                f"Which stride of {name} belongs to which index? Compute the addresses of two neighbours by hand.",
                places,
                _each(alter),
            )
    for axis in range(value.dim()):
        if value.stride(axis) > 1 < value.shape[axis]:
            yield Alteration(
                "strides_ignored",
                f"Looks as if indices along axis {axis} of {name} are not multiplied by a stride",
                f"How far apart do neighbours along axis {axis} of {name} lie? Multiply the index by that.",
                places,
                _each(partial(_without_stride, axis=axis)),
            )


def _without_stride(one: Tensor, axis: int) -> Tensor | None:
    strides = list(one.stride())
    if axis >= len(strides):
        return None
    strides[axis] = 1
    return _by_strides(one, strides)


def _rounded(places: tuple[int, ...], value: Tensor, name: str) -> Iterator[Alteration]:
    """Yield an argument that is converted to a coarser dtype before use."""
    # A few numbers may be cut off, or rounded for another reason, to the same ones.
    if value.numel() < _TELLING:
        return
    for dtype in (torch.float16, torch.bfloat16):
        if torch.finfo(dtype).eps > torch.finfo(value.dtype).eps:
            said = dtype_name(dtype)
            yield Alteration(
                "rounded_intermediate",
                f"Looks as if {name} {_verb(places)} converted to {said} before use",
                "Convert once, when the result is stored.",
                places,
                _each(partial(_through, dtype=dtype)),
            )


def _verb(places: tuple[int, ...]) -> str:
    return "is" if len(places) == 1 else "are"


def _through(one: Tensor, dtype: torch.dtype) -> Tensor:
    return one.to(dtype).to(one.dtype)


def _by_strides_of(
    tensors: Sequence[tuple[int, Tensor]], names: Sequence[str], *, same_shape: bool
) -> Iterator[Alteration]:
    """Yield each tensor, read by the strides of another tensor of the same shape, or of other shapes."""
    for (place, value), (other, instead) in product(tensors, tensors):
        name = names[place]
        is_meant = other != place and instead.dim() == value.dim() and value.is_floating_point()
        if is_meant and (instead.shape == value.shape) == same_shape:

            def by_others(inputs: Sequence[object], place: int, other: int = other) -> Tensor | None:
                one, found = inputs[place], inputs[other]
                if not isinstance(one, Tensor) or not isinstance(found, Tensor) or found.dim() != one.dim():
                    return None
                return _by_strides(one, found.stride())

            yield Alteration(
                "strides_ignored",
                f"Looks as if {name} is read by the strides of {names[other]}",
                f"Pass {name}'s own strides, and multiply its indices by them.",
                (place,),
                by_others,
            )


def _by_sizes_of(tensors: Sequence[tuple[int, Tensor]], names: Sequence[str]) -> Iterator[Alteration]:
    """Yield each tensor with an axis that is masked at the length of a shorter axis, of any tensor."""
    for (place, value), (other, measure) in product(tensors, tensors):
        for axis, shorter in product(range(value.dim()), range(measure.dim())):
            if not measure.shape[shorter] < value.shape[axis] or not value.is_floating_point():
                continue

            def masked(
                inputs: Sequence[object], place: int, axis: int = axis, other: int = other, shorter: int = shorter
            ) -> Tensor | None:
                one, of = inputs[place], inputs[other]
                if not isinstance(one, Tensor) or not isinstance(of, Tensor):
                    return None
                return _zero_beyond(one, axis, torch.arange(one.shape[axis]) < of.shape[shorter])

            masked_one = f"axis {axis} of {names[place]}"
            yield Alteration(
                "axes_exchanged",
                f"Looks as if {masked_one} is masked with the size of axis {shorter} of {names[other]}",
                f"How long is {masked_one}? Compare its indices with that size.",
                (place,),
                masked,
            )


def _swapped(values: Sequence[int], first: int, second: int) -> tuple[int, ...]:
    swapped = list(values)
    swapped[first], swapped[second] = swapped[second], swapped[first]
    return tuple(swapped)


def _scattered(one: Tensor, strides: Sequence[int]) -> Tensor | None:
    """Return new memory whose elements were stored by other strides; the rest is NaN.

    Return None if these strides lead to the right places, or lead several elements to one place.
    """
    places = torch.zeros((), dtype=torch.int64, device=one.device)
    for axis, (size, stride) in enumerate(zip(one.shape, strides, strict=True)):
        along = torch.arange(size, device=one.device) * stride
        places = places + along.view(-1, *([1] * (one.dim() - axis - 1)))
    places = places.reshape(-1)
    if torch.equal(places, torch.arange(one.numel(), device=one.device)) or bool(
        (places.sort().values.diff() == 0).any()
    ):
        return None
    inside, memory = places < one.numel(), one.new_full((one.numel(),), torch.nan)
    memory[places[inside]] = one.reshape(-1)[inside]
    return memory.view(one.shape)


def _by_strides(one: Tensor, strides: Sequence[int]) -> Tensor | None:
    """Return a tensor as other strides read its memory; None if they lead out of it."""
    leads_out = span(one.shape, strides) > span(one.shape, one.stride())
    if not one.numel() or leads_out or tuple(strides) == one.stride():
        return None
    return one.as_strided(one.shape, strides)
