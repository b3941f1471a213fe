"""Describe the inputs of a failed call, and the elements around the worst one of its wrong output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from grader.exercise.model import Part
from grader.judge.failure import Failure
from grader.judge.truth import Truth
from grader.record.causes import Mismatch, Neighbour
from grader.record.json_numbers import number
from grader.text import clean

# Elements on each side of the worst one, along the last axis.
_REACH = 3
# Tensors of up to this many elements are listed.
_LISTED = 6
_MOST_INPUTS = 12


def with_surroundings(failure: Failure, part: Part, truth: Truth) -> Failure:
    """Return the failure with the inputs of its call in words, and with the elements around the worst one.

    A failure without a wrong call of this part stays unchanged.
    """
    wrong_call = failure.wrong_call
    if wrong_call is None or wrong_call.recipe.part != part.name:
        return failure
    inputs = dict(zip(part.arguments, truth.inputs(wrong_call.recipe), strict=True))
    mismatch = failure.cause.mismatch
    for got, wrong, expected in wrong_call.answers():
        if mismatch is not None and expected.name == mismatch.output:
            mismatch = replace(mismatch, around=around(mismatch, got, wrong, expected.value, inputs))
    said = tuple(input_words(name, value) for name, value in list(inputs.items())[:_MOST_INPUTS])
    return replace(failure, cause=replace(failure.cause, mismatch=mismatch, inputs=said))


def around(
    mismatch: Mismatch, got: Tensor, wrong: Tensor, expected: Tensor, inputs: Mapping[str, object]
) -> tuple[Neighbour, ...]:
    """Return the worst element and its neighbours along the last axis, each with the inputs at its place.

    An input has an element at that place if its shape is the output's, or the last or the first axes of it.
    """
    *rows, column = mismatch.worst_index or (0,)
    columns = range(max(column - _REACH, 0), min(column + _REACH + 1, got.shape[-1])) if got.dim() else range(1)
    places = [(*rows, one) if got.dim() else () for one in columns]
    return tuple(
        Neighbour(
            index=place,
            expected=number(float(expected[place])),
            got=number(float(got[place])),
            is_wrong=bool(wrong[place]),
            inputs={
                name: number(float(value[beside]))
                for name, value in inputs.items()
                if isinstance(value, Tensor) and (beside := _place_in(value, place, got)) is not None
            },
        )
        for place in places
    )


def _place_in(value: Tensor, place: tuple[int, ...], output: Tensor) -> tuple[int, ...] | None:
    """Return the index of the element of an input that belongs to an element of the output; None if there is none."""
    axes = value.dim()
    if not 0 < axes <= output.dim() or value.is_complex():
        return None
    if value.shape == output.shape[-axes:]:
        return place[-axes:]
    return place[:axes] if value.shape == output.shape[:axes] else None


def input_words(name: str, value: object) -> str:
    """Return an argument in words: "x [1000] float32, -3.1 … 2.9", "scale = 0.5"."""
    if not isinstance(value, Tensor):
        plain = isinstance(value, bool | int | float | str) or value is None
        return f"{name} = {clean(repr(value), 60)}" if plain else f"{name}: {type(value).__name__}"
    kind = f"{name} {list(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    if 0 < value.numel() <= _LISTED:
        return f"{kind}: {', '.join(f'{float(one):.6g}' for one in value.flatten())}"
    # Some operations do not exist for short dtypes.
    wide = value.double()
    finite = wide[wide.isfinite()]
    said = f"{kind}, {float(finite.min()):.4g} … {float(finite.max()):.4g}" if finite.numel() else kind
    beyond = value.numel() - finite.numel()
    return f"{said}, {beyond} infinite or NaN" if beyond else said
