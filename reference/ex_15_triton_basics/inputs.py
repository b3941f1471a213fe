"""Builds the inputs of one case: a function per part, `part(case, generator) -> arguments in the stub's order`."""

from collections.abc import Mapping

from torch import Generator, Tensor

from grader.tensors import dtype_of, starting_at, values, with_row_gap


def _vector(case: Mapping[str, object], generator: Generator, family: object = None) -> Tensor:
    """A vector [N] of the case's dtype and values, starting at the case's offset."""
    drawn = values(family or case["values"], (int(case["N"]),), dtype_of(case["dtype"]), generator)
    return starting_at(drawn, int(case["offset"]))


def vector_add(case: Mapping[str, object], generator: Generator) -> tuple[Tensor, Tensor]:
    """x, y: [N]."""
    return _vector(case, generator), _vector(case, generator)


def fused_multiply_add(case: Mapping[str, object], generator: Generator) -> tuple[Tensor, Tensor, Tensor]:
    """x, y, z: [N]. "cancelling" makes z the rounded -x*y, so that only the product's rounding error is left."""
    if case["values"] != "cancelling":
        return _vector(case, generator), _vector(case, generator), _vector(case, generator)
    x, y = (_vector(case, generator, "normal") for _ in range(2))
    z = (-(x.double() * y.double())).to(x.dtype)
    return x, y, starting_at(z, int(case["offset"]))


def row_softmax(case: Mapping[str, object], generator: Generator) -> tuple[Tensor]:
    """x: [M, N], rows N + stride elements apart."""
    shape = (int(case["M"]), int(case["N"]))
    x = values(case["values"], shape, dtype_of(case["dtype"]), generator)
    if case["values"] == "large":
        x = x.clamp(-1e4, 1e4)
    return (with_row_gap(x, int(case["stride"])),)


def global_sum(case: Mapping[str, object], generator: Generator) -> tuple[Tensor]:
    """x: [N]."""
    return (_vector(case, generator),)
