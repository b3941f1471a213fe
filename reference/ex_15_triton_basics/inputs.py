"""Builds the inputs of one case: a function per part, `part(case, generator) -> arguments in the stub's order`."""

from collections.abc import Mapping

from torch import Generator, Tensor

from grader.exercise.tensors import dtype_of, starting_at, values, with_gaps

# Starts of the vectors of a call, in turns, from the case's offset on; all of them start at 0 if the offset is 0.
STARTS = (1, 3, 7, 0, 8)


def _start(case: Mapping[str, object], place: int) -> int:
    """Return the element that the vector at this place among the arguments starts at."""
    first = int(case["offset"])
    return STARTS[(STARTS.index(first) + place) % len(STARTS)] if first else 0


def _vector(case: Mapping[str, object], generator: Generator, place: int = 0, family: object = None) -> Tensor:
    """Return a vector [N] of the case's dtype and values. With an offset, no two vectors of a call start alike."""
    drawn = values(family or case["values"], (int(case["N"]),), dtype_of(case["dtype"]), generator)
    return starting_at(drawn, _start(case, place))


def vector_add(case: Mapping[str, object], generator: Generator) -> tuple[Tensor, Tensor]:
    """Return x, y: [N]."""
    return _vector(case, generator), _vector(case, generator, 1)


def fused_multiply_add(case: Mapping[str, object], generator: Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Return x, y, z: [N]. "cancelling" makes z the rounded -x*y, so that only the product's rounding error is left."""
    if case["values"] != "cancelling":
        return _vector(case, generator), _vector(case, generator, 1), _vector(case, generator, 2)
    x, y = (_vector(case, generator, place, "normal") for place in range(2))
    z = (-(x.double() * y.double())).to(x.dtype)
    return x, y, starting_at(z, _start(case, 2))


def row_softmax(case: Mapping[str, object], generator: Generator) -> tuple[Tensor]:
    """Return x: [M, N], rows N + stride elements apart; or all rows are the first one, in the same memory."""
    shape = (int(case["M"]), int(case["N"]))
    x = values(case["values"], shape, dtype_of(case["dtype"]), generator)
    if case["values"] == "large":
        x = x.clamp(-1e4, 1e4)
    if case["stride"] == "repeated":
        return (x[:1].clone().expand(shape),)
    return (with_gaps(x, 0, int(case["stride"])),)


def global_sum(case: Mapping[str, object], generator: Generator) -> tuple[Tensor]:
    """Return x: [N]."""
    return (_vector(case, generator),)
