"""Named tuples as arguments, kernel functions of its own that others combine with, and a tensor's own methods."""

import collections
import typing

import torch
import triton
import triton.language as tl

Sides = collections.namedtuple("Sides", "x y")


class Block(typing.NamedTuple):
    """How much a program takes."""

    size: int
    programs: int = 0

    def covering(self, n):
        """The same for n elements."""
        return self._replace(programs=triton.cdiv(n, self.size))


SIZES = (1024, 2048)


@triton.jit
def _more(a, b):
    return a + b


@triton.jit
def _loaded(pointer, offsets, n):
    return tl.load(pointer + offsets, mask=offsets < n, other=0.0)


@triton.jit
def _add(sides, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = _loaded(sides.x, offsets, n), _loaded(sides.y, offsets, n)
    counted = (offsets < n).to(tl.int32)
    if counted.sum(0) == tl.reduce(counted, 0, _more):
        tl.store(z_ptr + offsets, x + y, mask=offsets < n)


def vector_add(x, y):
    z = torch.empty_like(x)
    block = Block(SIZES[0]).covering(x.numel())
    _add[(block.programs,)](Sides(x, y), z, x.numel(), BLOCK=block.size)
    return z
